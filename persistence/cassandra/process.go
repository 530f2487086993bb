package cassandra

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is a child that dies with us.
type process struct {
	os    *os.Process
	ended chan struct{} // closed when it has been waited for
	state string        // how it ended, once ended is closed
}

// launch starts a child in a process group of its own.
func launch(cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = childAttributes()
	p := &process{ended: make(chan struct{})}
	started := make(chan error, 1)
	go p.hold(cmd, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// hold starts the child and waits for its end, all on one thread: the kernel
// kills the child when the thread that started it goes, not the process.
func (p *process) hold(cmd *exec.Cmd, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cmd.Start()
	p.os = cmd.Process
	started <- err
	if err != nil {
		return
	}
	_ = cmd.Wait() // the state says it
	p.state = cmd.ProcessState.String()
	close(p.ended)
}

// signal sends a signal to a child that has not been waited for; one that has
// ended takes any.
func (p *process) signal(s syscall.Signal) error {
	err := p.os.Signal(s)
	if errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}

// kill ends the child now, paused or not.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL) // it can only have ended before
	<-p.ended
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}
