package main

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"mpps/internal/cli"
	"mpps/internal/measure/traffic"
	"mpps/internal/measure/traffic/agent"
	"mpps/internal/ops/bench"
	"mpps/internal/outcome"
	"mpps/internal/report"
)

// agentReady is the answer of agent, given once it listens.
type agentReady struct {
	Listen string `json:"listen"` // HOST:PORT or unix:PATH
	Secret bool   `json:"secret"` // clients must know one
	// the secret that this agent made; empty if it was given one, or needs none
	NewSecret string `json:"new_secret,omitempty"`
}

type agentFlags struct {
	listen, secretFile string
	insecure           bool
	limits             agent.Limits
}

func (a *app) agentCommand() *cobra.Command {
	f := &agentFlags{}
	cmd := verb("agent", "run the far end of a measurement, in a guest or on another host", cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error { return a.serveAgent(cmd, f) })
	flags := cmd.Flags()
	cli.TextVar(flags, &f.listen, "listen", "127.0.0.1:"+agent.Port, "address to listen on: HOST:PORT (port 0: any "+
		"free one) or unix:PATH", parseListen)
	flags.StringVar(&f.secretFile, "secret-file", "", "file with the clients' secret, 16 bytes or more, readable "+
		"only by its owner")
	flags.BoolVar(&f.insecure, "insecure-lab", false, "serve any client, without a secret")
	cli.ListVar(flags, &f.limits.Ifaces, "iface", "use only this interface: IFACE or netns:NAME/IFACE; repeatable",
		traffic.ParseEndpoint)
	cli.ListVar(flags, &f.limits.To, "to", "send only to this prefix, such as 198.18.0.0/15; repeatable",
		netip.ParsePrefix)
	cli.ValueVar(flags, &f.limits.MaxPPS, "max-pps", "", "highest send rate in packets per second, such as 1M",
		parsePositiveRate)
	return cmd
}

// secret returns the secret that clients must know, and whether it was made just now.
func (f *agentFlags) secret() (secret []byte, made bool, err error) {
	_, local := agent.SocketPath(f.listen)
	switch {
	case f.insecure && f.secretFile != "":
		return nil, false, usage(errors.New("--insecure-lab and --secret-file: expected one of them"), "")
	case f.secretFile == "" && !f.insecure && !local:
		return []byte(rand.Text()), true, nil // 130 random bits
	}
	secret, err = bench.Secret(f.secretFile)
	return secret, false, err
}

func (a *app) serveAgent(cmd *cobra.Command, f *agentFlags) error {
	secret, made, err := f.secret()
	if err != nil {
		return err
	}
	s, err := agent.Listen("", f.listen, agent.Options{Version: version, Secret: secret, Open: f.insecure,
		Limits: &f.limits})
	if err != nil {
		return outcome.Failed(err, "is another agent running? --listen takes HOST:PORT or unix:PATH")
	}
	name, err := os.Hostname()
	if err != nil {
		return errors.Join(err, s.Close())
	}
	ready := agentReady{Listen: s.Addr(), Secret: len(secret) > 0}
	if made {
		ready.NewSecret = string(secret)
	}
	err = a.out.Answer(report.Answer{
		Verb: "agent", Host: name, Result: ready,
		Text: func(t *report.Text) {
			t.Line("listening on %s", ready.Listen)
			if made {
				t.Line("at the other end: (umask 077; echo %s >secret), then --agent %s --secret-file secret", secret,
					ready.Listen)
			}
		},
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return s.Serve(cmd.Context())
}
