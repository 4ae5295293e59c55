// Package planted builds packet paths with one bottleneck planted in each, drives traffic through them, has `mpps
// diagnose` say what holds them back, and compares. Scenarios are files (scenarios/*.yaml; more from outside:
// MPPS_PLANTED), docs/planted.md has their format. A path is made of network namespaces: the wire, the host, and what
// lies behind it, of which guests are processes that look like QEMU from outside and read a real tap. In the lab the
// same files run on an emulated host with more CPUs.
package planted
