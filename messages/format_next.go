//go:build belfry_next_format

package messages

// beyond is how many formats a test build knows more than a released one.
const beyond = 1
