// Package agent is the far end of a measurement: a server that runs sinks, generators and TCP endpoints for a client,
// on a second host, in a network namespace, or as the only process of a guest.
//
// Each connection, over TCP or a unix socket, is a session. Both sides send lines of JSON:
//
//	server   Hello{mpps, protocol, challenge, secret: true or false}
//	client   helloReply{mpps, protocol, challenge, proof, silence_ms}
//	server   helloDone{proof, silence_ms} or {error}
//	client   request{id, verb, args}, any number at a time
//	server   response{id, result} or {id, error}
//
// With a shared secret, both sides prove that they know it by an HMAC-SHA-256 over both challenges, and every later
// line carries a MAC over its number and text, so that nobody in between can add, change or replay one. The connection
// is not encrypted, because it carries no secrets. On a network that must not see the results, use an SSH tunnel.
//
// The hello may take 10 s and lines of 4 KiB, and few connections can be in it at once (see talk.Lobby). Data
// connections prove that they belong to a session with a key that both sides derive from its hello (see talk.Listen).
// What a client may ask for is bounded by Limits, and by the number of sessions and of what each has started.
//
// What a session started ends with it. If the connection closes, or is silent for longer than agreed (1.5 s unless the
// client asks for more; the client pings and the agent answers), traffic stops, every program is detached, and the
// client's calls fail.
package agent
