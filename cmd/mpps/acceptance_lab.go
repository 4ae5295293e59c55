package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"mpps/internal/acceptance"
	"mpps/internal/outcome"
)

const throughputName = "throughput"

// Names below the lab's /share.
const acceptanceShare = "acceptance"

// labInputs are the set-up of the demo's host, seen from there: a guest with an emulated NIC, and what it takes to mend it.
func labInputs(dir string) acceptance.Inputs {
	return acceptance.Inputs{
		Guest: demoGuest, Via: demoBridge, Agent: demoAddress + ":" + strconv.Itoa(demoPort), SecretFile: "/share/secret", Sink: "af_packet",
		PPS: "500k", Consent: []string{"security"}, NoReboot: true, Short: true, Dir: dir,
	}.Defaults()
}

// acceptanceInLab runs experiments shortened: modes by 'bench modes --lab', the others on the lab's host by the same command.
func (a *app) acceptanceInLab(ctx context.Context, f *acceptanceFlags, chosen []*acceptance.Experiment) error {
	p, err := openReport(f.output)
	if err != nil {
		return err
	}
	if p.Machine != nil && !p.Machine.Emulated {
		return outcome.Failed(fmt.Errorf("the report in %s is of a real machine, and this is the lab", p.dir), "give another directory with -o")
	}
	var runs []*acceptance.Run
	for _, e := range chosen {
		var r *acceptance.Run
		switch {
		case e.NoLab != "":
			a.out.Step("%s is left out: %s", e.Name, e.NoLab)
			continue
		case e.Name == throughputName:
			r, err = a.throughputInLab(ctx, p)
		default:
			r, err = a.begin(ctx, p, e, acceptance.Inputs{Lab: true, Short: true}.Defaults())
		}
		if r != nil {
			runs = append(runs, r)
		}
		if err != nil || r.State != acceptance.Done {
			break
		}
	}
	return a.accepted(p, runs, f, err)
}

// throughputInLab boots the demo's host and has the protocol run there, restarting the guest where it asks for that.
func (a *app) throughputInLab(ctx context.Context, p *acceptanceReport) (r *acceptance.Run, err error) {
	a.out.Step("a KVM host in a box")
	s, err := a.openScene(ctx, a.steps(), io.Discard)
	if err != nil {
		return nil, err
	}
	defer func() { err = s.closeAfter(err) }()
	in := labInputs("")
	argv := []string{"acceptance", throughputName, "--short", "-o", "/share/" + acceptanceShare, "--guest", in.Guest, "--via", in.Via, "--agent", in.Agent,
		"--secret-file", in.SecretFile, "--sink", in.Sink, "--pps", in.PPS, "--consent", "security", "--no-reboot"}
	for {
		// A run that failed is told by its report.
		if _, err := s.mpps(ctx, []int{outcome.CodeOK, outcome.CodeChanges, outcome.CodeFailed, outcome.CodeNotConfigured}, argv...); err != nil {
			return nil, err
		}
		if r, err = s.fetch(p); err != nil || r.State != acceptance.Waiting {
			return r, err
		}
		a.out.Step("%s: %s", r.Name, r.Why)
		if err := s.guest.Restart(ctx); err != nil {
			return r, err
		}
		argv = []string{"acceptance", throughputName, "--resume", "-o", "/share/" + acceptanceShare}
	}
}

// fetch takes over the run of the lab's report, with its files.
func (s *scene) fetch(p *acceptanceReport) (*acceptance.Run, error) {
	there, err := openReport(s.shared(acceptanceShare))
	if err != nil {
		return nil, err
	}
	r := there.Last(throughputName)
	if r == nil {
		return nil, errors.New("the lab's host answered without a report")
	}
	if r.State == acceptance.Waiting {
		return r, nil
	}
	from := filepath.Join(there.dir, filepath.Base(r.Inputs.Dir))
	r.Machine.Emulated, r.Inputs.Lab = true, true // also where it is virtualized: it is no host of anybody
	p.Machine, r.Inputs.Dir = r.Machine, filepath.Join(p.dir, p.next(r.Name))
	if err := p.add(r); err != nil {
		return nil, err
	}
	if err := os.CopyFS(r.Inputs.Dir, os.DirFS(from)); err != nil {
		return nil, fmt.Errorf("take the lab's files over: %w", err)
	}
	o, err := outcomes(r)
	if err != nil {
		return nil, err
	}
	r.Judge(o)
	return r, p.save()
}
