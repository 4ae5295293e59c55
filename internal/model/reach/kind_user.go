package reach

// UserMode: slirp or passt. A process makes sockets of the guest's packets.
const UserMode Kind = "user-mode"

var userMode = &Hops{
	Kind: UserMode, Words: "a user-mode NIC (slirp or passt)", Judged: true, But: "not for guests that matter",
	Kernel: true,
	What:   "passt or slirp", Interfaces: []string{"user", "passt"},
	Knobs: []string{"domain.user_mode"},
}
