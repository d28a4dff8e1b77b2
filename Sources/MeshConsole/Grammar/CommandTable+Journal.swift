extension CommandTable {
    private static let attachment = ArgumentSpecification(
        "ID", .attachment, "the attachment's id, its first digits, or its name")

    static let journalVerbs: [VerbSpecification] = [
        VerbSpecification(
            "journal add", "share files with the mesh",
            details: [
                "Returns when the files are durable on this node; the others fetch them on their own, also those who "
                    + "join later."
            ],
            arguments: [ArgumentSpecification("FILE", .file, "a file of this machine", repeats: true)],
            options: [OptionSpecification("note", .text, "TEXT", "a remark that everybody sees")],
            examples: [
                Example("starling journal add holiday.jpg", "share a picture"),
                Example("starling journal add *.pdf --note \"for tonight\"", "several files with one note"),
                Example("starling journal add -- -odd-name.txt", "a name that begins with a dash"),
            ]),
        VerbSpecification(
            "journal ls", "list what the mesh shares",
            options: [OptionSpecification("follow", short: "f", nil, "", "again after every change")],
            examples: [
                Example("starling journal ls", "ids, names, sizes, and who holds what"),
                Example("starling journal ls --json | jq -r '.attachments[].name'", "the names for a script"),
            ]),
        VerbSpecification(
            "journal get", "put an attachment into a directory",
            details: [
                "Returns when the content is verified and the file is in place. An id that is not known yet is awaited "
                    + "until --timeout. The same content already there is left alone. Other content of that name stays "
                    + "too: the file becomes “name (2)”, which is said, unless --force replaces what is there. The "
                    + "last part of DIRECTORY is made if it is missing."
            ],
            arguments: [attachment],
            options: [
                OptionSpecification(
                    "output", short: "o", .directory, "DIRECTORY", "where to", default: "the current directory"),
                OptionSpecification("force", nil, "", "replace other content of that name"),
            ],
            examples: [
                Example("starling journal get 90ab", "into the current directory"),
                Example("starling journal get holiday.jpg -o ~/Pictures", "by name, into another one"),
                Example("starling journal get 90ab --timeout 10m", "wait up to ten minutes for a holder"),
            ]),
        VerbSpecification(
            "journal rm", "take an attachment out of the journal, for everybody",
            arguments: [attachment],
            examples: [
                Example("starling journal rm 7c1e", "remove it"),
                Example("starling journal rm holiday.jpg", "by name, if only one has it"),
            ]),
        VerbSpecification(
            "journal wait", "wait until an attachment is here, or on several nodes",
            arguments: [attachment],
            options: [
                OptionSpecification(
                    "replicas", .count(1...1_000), "K", "how many nodes shall hold it whole",
                    default: "this one shall")
            ],
            examples: [
                Example("starling journal wait 7c1e", "until it is complete here"),
                Example("starling journal wait 7c1e --replicas 3 --timeout 5m", "until three nodes have it"),
            ]),
        VerbSpecification(
            "journal verify", "read attachments back and check every byte",
            details: [
                "Reads what this node holds from the disk and hashes it. What is damaged is named, fetched again from "
                    + "whoever has it, and ends with exit code 7."
            ],
            arguments: [
                ArgumentSpecification("ID", .attachment, "one attachment; without it all", required: false)
            ],
            examples: [
                Example("starling journal verify", "all that is here"),
                Example("starling journal verify 7c1e", "one"),
            ]),
    ]
}
