//go:build !belfry_next_format

package messages

const beyond = 0
