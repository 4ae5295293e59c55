// Package docs holds the documents that mpps reads itself.
package docs

import _ "embed"

// Realtime is docs/realtime.md. Its tables hold the findings of 'mpps realtime check'.
//
//go:embed realtime.md
var Realtime string
