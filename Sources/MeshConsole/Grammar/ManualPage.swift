/// The manual page, roff for `man`, from the table.
public enum ManualPage {
    public static func text(_ table: CommandTable = .standard) -> String {
        var lines = [
            ".TH STARLING 1 \"\" \"starling \(CommandTable.version)\" \"User Commands\"",
            ".SH NAME", "starling \\- a mesh of your own machines and friends, without a server",
            ".SH SYNOPSIS", ".B starling", "VERB [ARGUMENTS] [OPTIONS]",
            ".SH DESCRIPTION",
            escaped(
                "A node is one running starling. Nodes that share an invite form a mesh: encrypted end to end, without "
                    + "a leader. Results go to standard output, talk to standard error; every verb has --json."),
            ".SH VERBS",
        ]
        for verb in table.verbs where !verb.isHidden { lines += section(verb) }
        lines.append(".SH OPTIONS OF EVERY VERB")
        for option in table.globalOptions { lines += paragraph(HelpText.row(option)) }
        lines += environment + exitStatus
        return lines.joined(separator: "\n") + "\n"
    }

    private static func section(_ verb: VerbSpecification) -> [String] {
        var lines = [".SS " + escaped(verb.usage), sentence(verb.summary)]
        for detail in verb.details { lines += [".PP", escaped(detail)] }
        for argument in verb.arguments { lines += paragraph((argument.name, argument.help)) }
        for option in verb.shownOptions { lines += paragraph(HelpText.row(option)) }
        lines += [".PP", "Examples:", ".PP", ".nf"]
        for example in verb.examples { lines.append(escaped("    \(example.command)    # \(example.purpose)")) }
        return lines + [".fi"]
    }

    private static let environment: [String] =
        [".SH ENVIRONMENT"]
        + [
            ("STARLING_NODE", "the node to ask, as --node"),
            ("STARLING_STATE", "the directory above the nodes' state directories"),
            ("STARLING_LOG", "levels, as --log"),
            ("XDG_STATE_HOME, XDG_RUNTIME_DIR, XDG_CONFIG_HOME", "where state, sockets and config.json are"),
            ("NO_COLOR", "no colours"),
        ].flatMap(paragraph)

    private static let exitStatus: [String] =
        [".SH EXIT STATUS"]
        + [
            ("0", "done"), ("1", "the operation failed"), ("2", "usage"), ("3", "no such running node"),
            ("4", "unreachable or timed out"), ("5", "refused: not a member, expired invite, mesh ended"),
            ("6", "not found"), ("7", "storage: full, unreadable, corrupt, in use"), ("130", "interrupted"),
        ].flatMap(paragraph)

    private static func paragraph(_ row: (String, String)) -> [String] {
        [".TP", ".B " + escaped(row.0), escaped(row.1)]
    }

    private static func sentence(_ summary: String) -> String {
        escaped(summary.prefix(1).uppercased() + summary.dropFirst() + ".")
    }

    /// Text as roff shows it: no request by accident, dashes that can be copied.
    static func escaped(_ text: String) -> String {
        var output = ""
        for character in text {
            switch character {
            case "\\": output += "\\e"
            case "-": output += "\\-"
            case "\"": output += "\\(dq"
            default: output.append(character)
            }
        }
        return output.hasPrefix(".") || output.hasPrefix("'") ? "\\&" + output : output
    }
}
