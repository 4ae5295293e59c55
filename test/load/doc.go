// Package load has what mpps diagnose sees of a real guest while packets come to it.
package load
