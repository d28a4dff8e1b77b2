extension CommandTable {
    /// What `up` and `join` share.
    private static let startOptions: [OptionSpecification] = [
        OptionSpecification("name", .nodeName, "NAME", "what others see", default: "this machine's name"),
        OptionSpecification("port", .port, "PORT", "the UDP port", default: "47800, or the next free one"),
        OptionSpecification(
            "bind", .bindAddress, "ADDRESS", "use this address or interface only", default: "all of them",
            repeats: true),
        OptionSpecification("no-discovery", nil, "", "neither search the local network nor be found there"),
        OptionSpecification(
            "max-attachment", .size, "SIZE", "the largest file that is added here or fetched from others",
            default: "100 MiB"),
        OptionSpecification("ephemeral", nil, "", "keep nothing: identity and files go when the node goes"),
        OptionSpecification("background", nil, "", "return when the node is ready and leave it running"),
    ]

    private static let startTestHooks: [OptionSpecification] = [
        OptionSpecification(
            "host-clock", .hostClock, "OFFSET_NANOSECONDS,PPM", "test hook: shift and skew this node's host clock",
            testHook: true)
    ]

    static let nodeVerbs: [VerbSpecification] = [
        VerbSpecification(
            "up", "start a node: found a mesh, or return to yours", place: .shell,
            details: [
                "The first time, the node founds a mesh and prints an invite for the others; later it returns to its "
                    + "mesh. It runs in the foreground, one line an event, until Ctrl-C or `starling down`.",
                "State lives in $XDG_STATE_HOME/starling/NAME, or under STARLING_STATE.",
            ],
            options: startOptions
                + [
                    OptionSpecification("mesh", .text, "LABEL", "what to call the mesh this start founds"),
                    OptionSpecification(
                        "policy", .text, "RIGHTS",
                        "who may invite, remove and end in it, for good: creator, admitter, members",
                        default: "invite=members,remove=admitter,end=members"),
                ]
                + startTestHooks,
            examples: [
                Example("starling up", "start, and print an invite for the others"),
                Example("starling up --name kitchen --mesh \"film night\"", "with names of your own"),
                Example("starling up --background --port 47900", "return when it is ready"),
            ]),
        VerbSpecification(
            "join", "start a node in somebody's mesh", place: .shell,
            details: [
                "The local network is searched and the addresses in the invite are dialled, all at once. With `-` the "
                    + "invite is read from standard input, so that it never stands in the list of processes; given as "
                    + "an argument, it is wiped from there at once.",
                "Unreachable ends with exit code 4 and what was tried.",
            ],
            arguments: [
                ArgumentSpecification("INVITE", .invite, "what `starling invite` printed, or - for standard input")
            ],
            options: startOptions
                + [
                    OptionSpecification(
                        "at", .hostAndPort, "HOST:PORT", "an address to try beside those in the invite", repeats: true)
                ] + startTestHooks,
            examples: [
                Example("starling join starling:…", "join with a pasted invite"),
                Example("starling join - < invite.txt", "with an invite from a file"),
                Example(
                    "starling join starling:… --at 192.0.2.14:47800", "across networks that do not hear each other"),
            ]),
        VerbSpecification(
            "down", "stop a node of this user",
            options: [OptionSpecification("all", nil, "", "every running node")],
            examples: [
                Example("starling down", "stop the only one"),
                Example("starling down -n ana", "stop one of several"),
                Example("starling down --all", "stop them all"),
            ]),
        VerbSpecification(
            "nodes", "list the running nodes of this user", place: .shell,
            examples: [
                Example("starling nodes", "names, ports and meshes"),
                Example("starling nodes --json | jq -r '.nodes[].name'", "for a script"),
            ]),
        VerbSpecification(
            "demo", "start several nodes of this machine in one new mesh", place: .shell,
            details: ["For trying things out: the nodes run in the background on the loopback interface."],
            options: [
                OptionSpecification("nodes", .count(1...16), "N", "how many", default: "3")
            ] + startTestHooks,
            examples: [
                Example("starling demo", "three nodes, ready in under three seconds"),
                Example("starling demo --nodes 5", "five"),
                Example("starling demo stop", "stop them and remove their state"),
            ]),
        VerbSpecification(
            "demo stop", "stop the demo and remove its state", place: .shell,
            examples: [
                Example("starling demo stop", "stop what `starling demo` started"),
                Example("starling demo stop --quiet", "without a word"),
            ]),
        VerbSpecification(
            "serve", "be the background half of up and join: options as JSON on standard input", place: .shell,
            arguments: [ArgumentSpecification("NAME", .nodeName, "for the list of processes")],
            examples: [
                Example("starling serve ana < options.json", "what --background runs"),
                Example("starling up --background", "what to type instead"),
            ], hidden: true),
    ]

    static let meshVerbs: [VerbSpecification] = [
        VerbSpecification(
            "invite", "print an invite to this mesh",
            details: [
                "The invite alone stands on standard output. Whoever holds it can join until it expires or is revoked, "
                    + "so hand it over as you would a key."
            ],
            options: [
                OptionSpecification("qr", nil, "", "draw a QR code on standard error as well"),
                OptionSpecification(
                    "expires", .duration, "DURATION", "how long it is good for", default: "the node's own limit"),
            ],
            examples: [
                Example("starling invite", "one line to send to a friend"),
                Example("starling invite --qr --expires 10m", "to be scanned within ten minutes"),
                Example("starling invite | ssh sofa starling join - --background", "straight to another machine"),
            ]),
        VerbSpecification(
            "invite ls", "list the invites that are still good",
            examples: [
                Example("starling invite ls", "ids and how long each is good for"),
                Example("starling invite ls --json", "for a script"),
            ]),
        VerbSpecification(
            "invite revoke", "make an invite worthless",
            arguments: [ArgumentSpecification("ID", .inviteID, "the invite's id, or its first digits")],
            examples: [
                Example("starling invite revoke 3fa2", "nobody joins with it from now on"),
                Example("starling invite ls", "where the ids are"),
            ]),
        VerbSpecification(
            "remove", "put a member out of the mesh, for ever",
            details: [
                "All close their links to it, its key lets nobody in any more, and the group secret changes: it reads "
                    + "nothing that is sent after. What it has already stays with it. Invites made before are void, "
                    + "since it has read them.",
                "By default the creator of the mesh and whoever admitted the member may do this. In a terminal it is "
                    + "asked first; --yes answers.",
            ],
            arguments: [ArgumentSpecification("NAME", .peer, "the member, or the first digits of its id")],
            examples: [
                Example("starling remove cyd", "cyd is out; the others go on"),
                Example("starling remove cyd --yes && starling invite", "without a question, then a new invite"),
            ]),
        VerbSpecification(
            "end", "end the mesh for everybody",
            details: [
                "Every member's node says so and stops; who is away learns it from whoever it meets. It cannot be "
                    + "undone, and files that were not taken out with `journal get` stay in the state directories.",
                "By default any member may do this. In a terminal it is asked first; --yes answers.",
            ],
            examples: [
                Example("starling end", "the mesh is over, for all"),
                Example("starling leave", "what to type to go alone"),
            ]),
        VerbSpecification(
            "leave", "leave the activity; the node stays up",
            examples: [
                Example("starling leave", "leave"),
                Example("starling leave -n ana", "one of several nodes"),
            ]),
    ]
}
