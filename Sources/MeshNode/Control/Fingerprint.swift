import MeshBase
import MeshCrypto

/// A key in three words that can be compared aloud. For people to tell two members of one name apart, never a secret
/// and never an identity: 21 bits do not keep an attacker out, the key does.
public enum Fingerprint {
    public static func words(of peer: PeerID) -> String {
        let digest = Digest.hash32(Array("STARLING/1 fingerprint\0".utf8) + peer.bytes).bytes
        let number = Int(digest[0]) << 16 | Int(digest[1]) << 8 | Int(digest[2])
        let color = colors[number & 63]
        let thing = things[number >> 6 & 127]
        let count = counts[number >> 13 & 7]
        return "\(color) \(thing) \(count)"
    }

    private static func list(_ text: String) -> [String] { text.split(separator: " ").map(String.init) }

    private static let colors = list(
        """
        amber ashen azure beige black blue brass bronze brown coal copper coral cream crimson cyan dusky ebony emerald \
        fawn flax frost garnet ginger gold green grey hazel honey indigo ivory jade khaki lilac lemon linen lime maroon \
        mauve mint moss navy ochre olive opal orange pearl pink plum purple red rose ruby russet rusty sandy scarlet \
        sepia silver slate snowy teal umber violet white
        """)

    private static let things = list(
        """
        acorn anchor apple arrow badger barn basil beacon bear beetle bell birch bison bloom boat bridge brook bucket \
        candle canoe castle cedar cherry cliff clock cloud clover comet compass crab crane cricket crow daisy deer dove \
        drum eagle elm falcon feather fern fiddle field finch flute forest fox frog garden gate goose grape gull hammer \
        harbor hare harp hawk heron hill horse island ivy jay kettle kite ladder lake lamp lantern lark leaf lemur lion \
        loom lynx maple marble meadow melon mill moon moth mountain mouse needle nest oak ocean olive orchid otter owl \
        paddle panda path pebble pepper pine planet plover pond poppy quail quartz rabbit raven reed river robin rook \
        saddle sail seal shell sparrow spoon spruce squid star stone stork stream swan thistle tiger tower
        """)

    private static let counts = list("two three four five six seven eight nine")
}
