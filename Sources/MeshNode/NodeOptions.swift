/// Everything a node is told when it starts. Paths are absolute, numbers are already checked by whoever made this.
public struct NodeOptions: Sendable {
    /// What the others see; also the last component of the default state directory.
    public var name: String
    /// The label of a mesh founded by this start; ignored when the state directory already has a mesh or a ticket
    /// is given.
    public var meshLabel: String?
    /// Who may invite, remove and end in a mesh founded by this start, as `invite=creator,remove=members,end=creator`;
    /// `nil` for the standard ones. Ignored where the label is.
    public var policyText: String?
    /// The UDP port wanted, 1…65535; the next free one is taken when `isPortFixed` is false.
    public var port: UInt16
    /// True when a person asked for this very port: taken means failure, not the next one.
    public var isPortFixed: Bool
    /// Numeric addresses or interface names to use; empty means every usable interface.
    public var bindAddresses: [String]
    /// Whether beacons are sent to and heard from the local network.
    public var discovery: Bool
    /// Nothing is to outlive this start. The state directory is a fresh one that the caller removes afterwards.
    public var ephemeral: Bool
    /// Identity, records, catalogue and chunks of this node; made with mode 0700 if absent.
    public var stateDirectory: String
    /// Where the control socket goes; its directory is made with mode 0700 if absent. At most 107 bytes.
    public var controlSocketPath: String
    /// Test hook: added to CLOCK_MONOTONIC, in nanoseconds.
    public var hostClockOffsetNanoseconds: Int64
    /// Test hook: the rate error of the host clock in parts per million; positive runs fast.
    public var hostClockPartsPerMillion: Double
    /// The text of an invite to join with; `nil` founds a mesh or returns to the one in the state directory.
    /// A secret: never logged, never shown.
    public var ticketText: String?
    /// Further `HOST:PORT` to dial beside those in the invite. May hold names, which are looked up off the loop.
    public var atAddresses: [String]
    /// Level by area, for example `["links": "debug"]`; the area `all` sets the default.
    public var logLevels: [String: String]
    /// The largest file `journal add` accepts; `nil` is the library's own limit.
    public var maxAttachmentBytes: Int64?
    /// How long a join may take before it is given up, in seconds.
    public var timeoutSeconds: Double
    /// Whether the objects given to `output` are printed as JSON. Presentation only.
    public var json: Bool

    /// A node with the defaults of the command.
    public init(name: String, stateDirectory: String, controlSocketPath: String) {
        self.name = name
        self.stateDirectory = stateDirectory
        self.controlSocketPath = controlSocketPath
        meshLabel = nil
        policyText = nil
        port = 47_800
        isPortFixed = false
        bindAddresses = []
        discovery = true
        ephemeral = false
        hostClockOffsetNanoseconds = 0
        hostClockPartsPerMillion = 0
        ticketText = nil
        atAddresses = []
        logLevels = [:]
        maxAttachmentBytes = nil
        timeoutSeconds = 30
        json = false
    }
}
