package cqlproxy_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/belfry-scheduler/belfry/persistence/cassandra"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(cassandra.Tests(m)) }
