package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"
)

// serveProfiles serves Go's profiles on a loopback address of their own: they
// show what jobs hold, so nobody else may read them. An empty address serves
// nothing.
func serveProfiles(addr string) (end func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil || !at.Addr().IsLoopback() {
		return nil, &coded{exitUsage, fmt.Errorf("--pprof-listen %q: only a loopback address such as 127.0.0.1:6060 may serve profiles", addr)}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for profiles: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }()
	return func() { _ = server.Close() }, nil
}
