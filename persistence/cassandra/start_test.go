package cassandra

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(Tests(m)) }

func TestSmoke(t *testing.T) {
	c := Start(t, 1)
	t.Log(c.Hosts(), c.Log(0))
}
func TestThree(t *testing.T) {
	c := Start(t, 3)
	t.Log(c.Hosts(), c.Log(0))
}
