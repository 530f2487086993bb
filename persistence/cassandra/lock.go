package cassandra

import (
	"os"
	"syscall"
)

// lockFile takes a file's lock, waiting for it; the lock ends with the process at
// the latest.
func lockFile(path string) (unlock func(), err error) {
	return flock(path, os.O_CREATE|os.O_RDWR, syscall.LOCK_EX)
}

// tryLockFile is lockFile for a file that exists, without waiting.
func tryLockFile(path string) (unlock func(), err error) {
	return flock(path, os.O_RDWR, syscall.LOCK_EX|syscall.LOCK_NB)
}

func flock(path string, flag, how int) (func(), error) {
	f, err := os.OpenFile(path, flag, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: path, Err: err}
	}
	return func() { f.Close() }, nil
}
