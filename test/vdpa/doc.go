// Package vdpa has the test of what a real kernel tells of a vDPA device. Debian's kernel has no simulator, so that a
// process implements the device (VDUSE); it carries no packets.
package vdpa
