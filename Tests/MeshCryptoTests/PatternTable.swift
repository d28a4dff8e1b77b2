@testable import MeshCrypto

/// Every pattern of the vector files in Noise's own notation (revision 34, sections 7.4, 7.5 and 18.1). Starling speaks
/// XXpsk3 alone; the others are here because more vectors prove the engine better.
enum PatternTable {
    static let notation: [String: String] = [
        "N": "<- s; ...; -> e es",
        "K": "-> s; <- s; ...; -> e es ss",
        "X": "<- s; ...; -> e es s ss",

        "NN": "-> e; <- e ee",
        "NK": "<- s; ...; -> e es; <- e ee",
        "NX": "-> e; <- e ee s es",
        "XN": "-> e; <- e ee; -> s se",
        "XK": "<- s; ...; -> e es; <- e ee; -> s se",
        "XX": "-> e; <- e ee s es; -> s se",
        "KN": "-> s; ...; -> e; <- e ee se",
        "KK": "-> s; <- s; ...; -> e es ss; <- e ee se",
        "KX": "-> s; ...; -> e; <- e ee se s es",
        "IN": "-> e s; <- e ee se",
        "IK": "<- s; ...; -> e es s ss; <- e ee se",
        "IX": "-> e s; <- e ee se s es",

        "NK1": "<- s; ...; -> e; <- e ee es",
        "NX1": "-> e; <- e ee s; -> es",
        "X1N": "-> e; <- e ee; -> s; <- se",
        "X1K": "<- s; ...; -> e es; <- e ee; -> s; <- se",
        "XK1": "<- s; ...; -> e; <- e ee es; -> s se",
        "X1K1": "<- s; ...; -> e; <- e ee es; -> s; <- se",
        "X1X": "-> e; <- e ee s es; -> s; <- se",
        "XX1": "-> e; <- e ee s; -> es s se",
        "X1X1": "-> e; <- e ee s; -> es s; <- se",
        "K1N": "-> s; ...; -> e; <- e ee; -> se",
        "K1K": "-> s; <- s; ...; -> e es; <- e ee; -> se",
        "KK1": "-> s; <- s; ...; -> e; <- e ee se es",
        "K1K1": "-> s; <- s; ...; -> e; <- e ee es; -> se",
        "K1X": "-> s; ...; -> e; <- e ee s es; -> se",
        "KX1": "-> s; ...; -> e; <- e ee se s; -> es",
        "K1X1": "-> s; ...; -> e; <- e ee s; -> se es",
        "I1N": "-> e s; <- e ee; -> se",
        "I1K": "<- s; ...; -> e es s; <- e ee; -> se",
        "IK1": "<- s; ...; -> e s; <- e ee se es",
        "I1K1": "<- s; ...; -> e s; <- e ee es; -> se",
        "I1X": "-> e s; <- e ee s es; -> se",
        "IX1": "-> e s; <- e ee se s; -> es",
        "I1X1": "-> e s; <- e ee s; -> se es",
    ]

    /// The pattern with its modifiers, "XXpsk0+psk3"; `nil` for a name that is not in the table.
    static func pattern(named name: String) -> HandshakePattern? {
        let base = String(name.prefix { !$0.isLowercase })
        let positions = name.dropFirst(base.count).split(separator: "+").compactMap { Int($0.dropFirst(3)) }
        guard let notation = notation[base] else { return nil }
        let lines = notation.split(separator: ";").map { $0.split(separator: " ").map(String.init) }
        let gap = lines.firstIndex(of: ["..."])
        let known = lines[..<(gap ?? 0)]
        var messages = lines[(gap.map { $0 + 1 } ?? 0)...].map { line in line.dropFirst().compactMap(token) }
        for position in positions {
            if position == 0 {
                messages[0].insert(.presharedKey, at: 0)
            } else {
                messages[position - 1].append(.presharedKey)
            }
        }
        return HandshakePattern(
            name: name, initiatorKeyIsKnown: known.contains(["->", "s"]),
            responderKeyIsKnown: known.contains(["<-", "s"]), messages: messages)
    }

    private static func token(_ word: String) -> HandshakePattern.Token? {
        switch word {
        case "e": .ephemeral
        case "s": .fixed
        case "ee": .ephemeralEphemeral
        case "es": .ephemeralFixed
        case "se": .fixedEphemeral
        case "ss": .fixedFixed
        default: nil
        }
    }
}
