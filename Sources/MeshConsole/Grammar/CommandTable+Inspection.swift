import MeshBase

extension CommandTable {
    static let inspectionVerbs: [VerbSpecification] = [
        VerbSpecification(
            "status", "what this node knows, on one screen",
            examples: [
                Example("starling status", "node, mesh, peers, journal and clock"),
                Example("starling status -n ana --json | jq .mesh.memberCount", "one number for a script"),
            ]),
        VerbSpecification(
            "peers", "who is reachable, how fast, and how far their clocks are off",
            examples: [
                Example("starling peers", "state, path, round trip, clock offset ± error, loss"),
                Example("starling peers --json | jq -r '.peers[] | select(.state == \"alive\").name'", "who is alive"),
            ]),
        VerbSpecification(
            "members", "everybody admitted to the mesh",
            examples: [
                Example("starling members", "names, states, and who admitted whom"),
                Example("starling members --json", "for a script"),
            ]),
        VerbSpecification(
            "links", "the encrypted links of this node",
            examples: [
                Example("starling links", "address, round trip, window, pacing, datagram size"),
                Example("starling links -n ben", "of another node of yours"),
            ]),
        VerbSpecification(
            "clock", "the mesh clock and its error",
            examples: [
                Example("starling clock", "mesh time, host time, error, rate"),
                Example("starling clock --json | jq .errorNanoseconds", "the error alone"),
            ]),
        VerbSpecification(
            "session", "the activity of the mesh and who takes part",
            examples: [
                Example("starling session", "what it is, and the participants"),
                Example("starling session --json | jq -r .session.state", "its state for a script"),
            ]),
        VerbSpecification(
            "metrics", "counters and gauges, as Prometheus reads them",
            examples: [
                Example("starling metrics", "Prometheus text"),
                Example("starling metrics --json | jq .counters", "for a script"),
            ]),
        VerbSpecification(
            "why", "how a peer is, or is not, reached",
            arguments: [ArgumentSpecification("NAME", .peer, "the peer")],
            examples: [
                Example("starling why cyd", "what was tried and what came back"),
                Example("starling why cyd --json", "for a script"),
            ]),
        VerbSpecification(
            "events", "who did what, when",
            options: [
                OptionSpecification(
                    "follow", short: "f", nil, "",
                    "then go on with what happens, until Ctrl-C or for --timeout SECONDS"),
                OptionSpecification(
                    "since", .age, "DURATION", "only this far back; 0 is from now on", default: "all that is kept"),
            ],
            examples: [
                Example("starling events --since 5m", "the last five minutes"),
                Example("starling events --follow --json > events.jsonl", "what is kept, then all that happens"),
                Example("starling events --follow --since 0 --timeout 60", "what happens within the next minute"),
            ]),
    ]

    static let messageVerbs: [VerbSpecification] = [
        VerbSpecification(
            "send", "send a message to the mesh, or to some of it",
            arguments: [
                ArgumentSpecification(
                    "TEXT", .text, "the message; - reads it from standard input", required: false)
            ],
            options: [
                OptionSpecification(
                    "to", .peer, "NAME", "this member only; several: NAME,NAME or again", default: "everybody",
                    repeats: true),
                OptionSpecification("unreliable", nil, "", "at most once, no waiting: for what is soon out of date"),
                OptionSpecification(
                    "deadline", .duration, "SPAN", "with --unreliable: dropped when it would come later than this"),
                OptionSpecification("ordered", nil, "", "to everybody, in one order that is the same everywhere"),
                OptionSpecification(
                    "repeat", .count(1...1_000_000), "N", "test hook: send it this often", default: "1",
                    testHook: true),
                OptionSpecification("size", .size, "BYTES", "test hook: pad or cut it to this size", testHook: true),
            ],
            examples: [
                Example("starling send \"popcorn?\"", "to everybody"),
                Example("starling send --to ben,cyd \"just us\"", "to two members"),
                Example("starling send --unreliable --deadline 50ms \"x 12 y 40\"", "now or never"),
            ]),
        VerbSpecification(
            "inbox", "messages that arrived",
            options: [
                OptionSpecification(
                    "follow", short: "f", nil, "",
                    "then go on with what arrives, until Ctrl-C or for --timeout SECONDS"),
                OptionSpecification("count", nil, "", "test hook: only how many", testHook: true),
            ],
            examples: [
                Example("starling inbox", "what is kept"),
                Example("starling inbox --follow --json | jq -r .text", "each text as it arrives"),
            ]),
    ]

    static let toolVerbs: [VerbSpecification] = [
        VerbSpecification(
            "repl", "a prompt inside a running node", place: .shell,
            details: [
                "Every verb without `starling` before it, with history and Tab completion; events appear above the "
                    + "line. Ctrl-D leaves, the node stays. Commands from a pipe work without a terminal."
            ],
            arguments: [
                ArgumentSpecification("NAME", .nodeName, "the node; without it the only running one", required: false)
            ],
            examples: [
                Example("starling repl ben", "a prompt in ben"),
                Example("printf 'peers\\n' | starling repl ben --json", "from a pipe"),
            ]),
        VerbSpecification(
            "watch", "show what a reading verb says, again every second", place: .repl,
            details: ["Any key ends it."],
            arguments: [
                ArgumentSpecification("VERB", .verb, "the verb"),
                ArgumentSpecification("VALUE", .text, "what the verb takes", required: false, repeats: true),
            ],
            examples: [
                Example("watch peers", "who is there, live"),
                Example("watch journal ls", "how far the files are"),
            ]),
        VerbSpecification(
            "top", "a live view of a node: peers, clock and files", place: .shell,
            details: ["Needs a terminal. Any key ends it."],
            arguments: [
                ArgumentSpecification("NAME", .nodeName, "the node; without it the only running one", required: false)
            ],
            examples: [
                Example("starling top ben", "look at ben until a key is pressed"),
                Example("starling top", "the only running node"),
            ]),
        VerbSpecification(
            "log", "show or change what a running node writes to its log",
            details: [
                "The log goes to the node's standard error; of a node in the background that is the file `log` in its "
                    + "state directory. Levels: \(ValueKind.levelNames.joined(separator: ", ")). Areas: all, "
                    + "\(LogArea.allCases.map(\.rawValue).joined(separator: ", "))."
            ],
            arguments: [
                ArgumentSpecification("AREA=LEVEL,…", .logLevels, "the new levels", required: false)
            ],
            examples: [
                Example("starling log messenger=debug", "more about links and messages, without a restart"),
                Example("starling log", "the levels now"),
            ]),
        VerbSpecification(
            "doctor", "check what can go wrong on this machine", place: .shell,
            details: [
                "Needs no network and no running node, takes at most five seconds; each line has its fix. With --peer a "
                    + "running node says how it reaches that member, and what was tried."
            ],
            options: [OptionSpecification("peer", .peer, "NAME", "check the way to this member as well")],
            examples: [
                Example("starling doctor", "all checks"),
                Example("starling doctor --peer ben", "and how ben is reached"),
                Example("starling doctor --json | jq '.checks[] | select(.result != \"ok\")'", "what is not well"),
            ]),
        VerbSpecification(
            "report", "write a redacted bug report", place: .shell,
            details: ["The report is shown before it is written. Keys, invites, texts and file names are left out."],
            options: [
                OptionSpecification(
                    "output", short: "o", .file, "FILE", "where to", default: "starling-report.txt in this directory")
            ],
            examples: [
                Example("starling report", "show it, ask, write it"),
                Example("starling report --yes -o report.txt", "without a question"),
            ]),
        VerbSpecification(
            "config", "the settings in force", place: .shell,
            options: [OptionSpecification("origin", nil, "", "and where each one came from")],
            examples: [
                Example("starling config --origin", "each setting and who set it"),
                Example("starling config --json", "for a script"),
            ]),
        VerbSpecification(
            "completions", "print the completion script of a shell", place: .shell,
            arguments: [ArgumentSpecification("SHELL", .choice(["bash", "zsh", "fish"]), "which shell")],
            examples: [
                Example("starling completions bash > ~/.local/share/bash-completion/completions/starling", "for bash"),
                Example("starling completions fish > ~/.config/fish/completions/starling.fish", "for fish"),
            ]),
        VerbSpecification(
            "complete", "print what could stand here, one a line",
            arguments: [
                ArgumentSpecification(
                    "KIND", .choice(["peers", "attachments", "invites", "nodes"]), "what to list")
            ],
            examples: [
                Example("starling complete peers", "the peers of the only running node"),
                Example("starling complete nodes", "the running nodes"),
            ], hidden: true),
        VerbSpecification(
            "man", "print the manual page", place: .shell,
            examples: [
                Example("starling man | man -l -", "read it"),
                Example("starling man > ~/.local/share/man/man1/starling.1", "install it"),
            ]),
        VerbSpecification(
            "help", "examples and options of a verb",
            arguments: [ArgumentSpecification("VERB", .verb, "the verb", required: false, repeats: true)],
            examples: [
                Example("starling help journal add", "how to add a file"),
                Example("starling help", "all verbs"),
            ]),
        VerbSpecification(
            "version", "print the version", place: .shell,
            examples: [
                Example("starling version", "the version"),
                Example("starling version --json", "for a script"),
            ]),
        VerbSpecification(
            "quit", "leave the REPL; the node stays", place: .repl,
            examples: [Example("quit", "the same as Ctrl-D"), Example("exit", "another word for it")]),
        VerbSpecification(
            "exit", "leave the REPL; the node stays", place: .repl,
            examples: [Example("exit", "the same as Ctrl-D"), Example("quit", "another word for it")]),
    ]
}
