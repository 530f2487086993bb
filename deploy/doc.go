// Package deploy has no code: it holds the Dockerfile and the compose files, and
// tests that they say what the binary understands.
package deploy
