// Package version holds the version of mpps.
package version

// Version is set by the linker (-X mpps/internal/version.Version=…).
var Version = "0.1.0"
