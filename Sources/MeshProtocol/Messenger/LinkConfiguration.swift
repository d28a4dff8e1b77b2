import MeshBase
import MeshWire

/// Every tunable of the links, each with its unit and its reason. Constants of the wire format are in `WireLimits`.
public struct LinkConfiguration: Sendable {
    // MARK: Versions

    /// The wire versions this build speaks, offered in every handshake. Two nodes link when their ranges overlap.
    public var minimumVersion: UInt8 = WireVersion.current
    public var maximumVersion: UInt8 = WireVersion.current
    /// Capability bits offered in every handshake; none is defined yet.
    public var capabilities: UInt32 = 0

    // MARK: Life of a link

    /// Without hearing anything authentic for this long a link is gone. Longer than any failure detection above, so
    /// that a short outage keeps the queues.
    public var idleLimit: TimeSpan = .seconds(30)
    /// A link that has sent nothing for this long sends a PING: keeps NAT bindings (30 s and more) and the idle limit.
    public var keepAliveInterval: TimeSpan = .seconds(10)
    /// Links at one time; a handshake beyond is refused.
    public var maximumLinks = 1024

    // MARK: Handshakes

    /// One dial tries all its addresses for this long.
    public var dialTimeLimit: TimeSpan = .seconds(10)
    /// Between the first datagrams to two addresses of one dial.
    public var dialStagger: TimeSpan = .milliseconds(50)
    /// Dials running at one time; the next one is refused with `dialFailed(.tooMany)`.
    public var maximumDials = 256
    /// Addresses of one dial; the rest is ignored.
    public var maximumDialAddresses = 32
    /// A new attempt at one address starts at most this often (AB-64); retransmissions of one attempt have their own
    /// schedule.
    public var dialIntervalPerAddress: TimeSpan = .seconds(5)
    /// First retransmission of a handshake datagram; doubles each time, with 20 % of jitter.
    public var handshakeRetransmission: TimeSpan = .milliseconds(250)
    /// How long a responder remembers a handshake that it answered.
    public var halfOpenLife: TimeSpan = .seconds(10)
    /// Handshakes a responder remembers in all, and from one network (/24 or /56) whose address is not proven.
    public var maximumHalfOpen = 64
    public var maximumHalfOpenPerNetwork = 4
    /// The same limit for sources that have proven their address with a cookie: a LAN is one network.
    public var maximumHalfOpenPerProvenNetwork = 32
    /// Handshakes that pass `mac1` in one second before a cookie is asked for. One costs about 150 µs here.
    public var handshakesPerSecondBeforeCookies = 200
    /// How long a cookie is good, and how often the secret behind it changes.
    public var cookieLife: TimeSpan = .seconds(120)
    /// First and longest wait before a peer of a foreign version is tried again; doubles each time.
    public var versionBackOff: TimeSpan = .seconds(5)
    public var maximumVersionBackOff: TimeSpan = .seconds(300)

    // MARK: Keys

    /// A key is replaced after this long, this many datagrams, or this many bytes, whichever is first.
    public var rekeyInterval: TimeSpan = .seconds(120)
    public var rekeyPackets: UInt64 = 1 << 48
    public var rekeyBytes: UInt64 = 64 << 30
    /// The responder of the last handshake starts a new one only this much later, so that seldom both do.
    public var responderRekeyDelay: TimeSpan = .seconds(10)
    /// A failed rekey is tried again after this long.
    public var rekeyRetry: TimeSpan = .seconds(5)
    /// Datagrams under a replaced key are still opened for this long.
    public var keyOverlap: TimeSpan = .seconds(10)
    /// Counter of a link's first datagram; only tests raise it.
    public var firstCounter: UInt64 = 0

    // MARK: Datagram sizes

    /// Whether sizes beyond 1232 bytes are probed at all.
    public var allowsMTUGrowth = true
    /// Bytes of UDP payload to probe, ascending: Ethernet, jumbo frames, loopback.
    public var probeTargets = [1452, 8952, WireLimits.maximumDatagramBytes]
    /// No datagram is larger than this, whatever the path carries.
    public var maximumDatagramBytes = WireLimits.maximumDatagramBytes
    /// Bulk on paths of huge datagrams is cut to this: larger ones bring no more speed and fill socket buffers.
    public var bulkDatagramBytes = 32_768
    /// Tries per size, and how long a refused size is left alone.
    public var probeAttempts = 3
    public var probeRetry: TimeSpan = .seconds(600)

    // MARK: Acknowledgement and queues

    /// Longest delay of an acknowledgement; a quarter of the round trip when that is less.
    public var maximumAcknowledgementDelay: TimeSpan = .milliseconds(25)
    /// A link that sends only keep-alives and clock reports asks for an acknowledgement this often.
    public var fleetingPingInterval: TimeSpan = .seconds(2)
    /// Bytes queued or unacknowledged per peer before `send` says `queueFull`: bulk, and everything else.
    public var maximumAttachmentQueueBytes = 8 << 20
    public var maximumQueueBytes = 4 << 20
    /// Round trip assumed before the first measurement.
    public var initialRoundTrip: TimeSpan = .milliseconds(100)
    /// For how many datagrams after a lost one small messages are sent a second time (one in 333 is 0.3 % of loss; a
    /// fraction averaged over windows would be known too late on a link with little traffic), and how much later.
    public var insuredDatagramsAfterLoss: UInt64 = 333
    public var insuranceDelay: TimeSpan = .milliseconds(7)
    public var maximumInsuredBytes = 512
    /// Share of the path's rate that second copies of applications' messages take at most.
    public var insuredShare = 0.1
    /// One number in this many is skipped at random, so that an acknowledgement of it proves a lie (AB-62).
    public var counterSkipInterval = 512

    // MARK: Carrying for others

    /// Pairs of members for which this node carries datagrams at one time; 0 carries nothing.
    public var maximumRelayedPairs = 16
    /// Bytes a second of all that it carries: 8 Mbit/s, a fraction of what homes upload today.
    public var relayedBytesPerSecond = 1_000_000
    /// Bytes waiting on one link beyond which nothing more is carried over it: a quarter of a second of the above.
    public var relayQueueBytes = 256 << 10

    /// How often the spare way of a link through a member is asked whether it works. Well within the 30 s for which a
    /// member keeps a pair's place.
    public var spareProbeInterval: TimeSpan = .seconds(10)

    // MARK: Incoming

    /// Reliable messages in pieces, and bytes of them, held for one peer (AB-21). The sender keeps below.
    public var maximumOpenMessages = 64
    public var maximumOpenBytes = 4 << 20
    /// The same of unreliable ones, which no sender counts; and how long these are held without progress.
    public var maximumOpenUnreliableMessages = 16
    public var maximumOpenUnreliableBytes = 1 << 20
    public var openMessageLife: TimeSpan = .seconds(10)
    /// PATH_CHALLENGEs waiting for their answer (AB-31).
    public var maximumPathResponses = 8

    public init() {}
}
