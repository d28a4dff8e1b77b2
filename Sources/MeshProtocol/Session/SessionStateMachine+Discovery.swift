import MeshBase
import MeshCrypto
import MeshWire

/// Beacons on the local network.
extension SessionStateMachine {
    /// Calls under the epoch secret, for lost members, and under every join secret, for newcomers.
    mutating func callOut(at now: HostTime, into outbox: inout Outbox<SessionOutput>) {
        guard phase == .member || phase == .joining, configuration.isDiscoveryEnabled else { return discovery.stop() }
        discovery.noteCall(at: now, interval: beaconInterval(at: now))
        let isQuestion = phase == .joining || isSomebodyMissing(at: now)
        for secret in handshakeSecrets.prefix(Discovery.maximumSecrets) {
            let isEpoch = epochSecrets.contains { $0.id == secret.id }
            sendBeacon(under: secret, isQuestion: isQuestion && (isEpoch || phase == .joining), into: &outbox)
        }
    }

    private mutating func beaconInterval(at now: HostTime) -> TimeSpan {
        if phase == .joining { return configuration.joinBeaconInterval }
        if isSomebodyMissing(at: now) { return configuration.urgentBeaconInterval }
        return random.jittered(configuration.beaconInterval, spread: 1.0 / 3)
    }

    /// A member was lost less than half an hour ago.
    private func isSomebodyMissing(at now: HostTime) -> Bool {
        dials.hasLost(within: configuration.eagerRedialTime, before: now)
    }

    private mutating func sendBeacon(
        under secret: GroupSecret, isQuestion: Bool, into outbox: inout Outbox<SessionOutput>
    ) {
        guard let port = localAddresses.first(where: { $0.port != 0 })?.port else { return }
        let beacon = Beacon(
            isQuestion: isQuestion, isMember: phase == .member, port: port, incarnation: identity.incarnation)
        statistics.beaconsSent &+= 1
        outbox.append(.sendBeacon(Discovery.seal(beacon, under: secret, random: &random)))
    }

    mutating func beaconReceived(
        _ datagram: [UInt8], from source: SocketAddress, at now: HostTime, into outbox: inout Outbox<SessionOutput>
    ) {
        guard configuration.isDiscoveryEnabled, phase == .member || phase == .joining else { return }
        switch discovery.read(datagram, secrets: handshakeSecrets, at: now) {
        case .foreign: statistics.beaconsForeign &+= 1
        case .overRate: statistics.beaconsIgnored &+= 1
        case .beacon(let beacon, let secret):
            guard beacon.incarnation != identity.incarnation else { return }
            statistics.beaconsHeard &+= 1
            heard(beacon, under: secret, from: source.with(port: beacon.port), at: now, into: &outbox)
        }
    }

    /// Dials whoever called, unless it is linked already; answers a question too, in case the other side reaches this
    /// node but not the other way round, or its next beacon is lost (MEM-23).
    private mutating func heard(
        _ beacon: Beacon, under secret: GroupSecret, from address: SocketAddress, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        let isLinked = linkOrder.contains { peer in
            links[peer]?.identity.incarnation == beacon.incarnation && links[peer]?.relay == nil
        }
        guard !isLinked else { return }
        // Two newcomers have nothing to say to each other.
        guard phase == .member || beacon.isMember else { return }
        if beacon.isQuestion, phase == .member {
            if discovery.mayAnswer(at: now) {
                sendBeacon(under: secret, isQuestion: false, into: &outbox)
            } else {
                statistics.beaconsIgnored &+= 1
            }
        }
        // Members among themselves use the epoch secret; another member's call to newcomers is not for this node.
        let isEpoch = epochSecrets.contains { $0.id == secret.id }
        guard phase == .joining || isEpoch || !beacon.isMember else { return }
        dialCaller(at: address, under: secret, at: now, into: &outbox)
    }

    private mutating func dialCaller(
        at address: SocketAddress, under secret: GroupSecret, at now: HostTime,
        into outbox: inout Outbox<SessionOutput>
    ) {
        guard let target = Paths.dialable([address], local: localAddresses).first else { return }
        guard discovery.mayDial(target, at: now) else {
            statistics.beaconsIgnored &+= 1
            return
        }
        if phase == .joining {
            if joining?.addresses.contains(target) == false, (joining?.addresses.count ?? 0) < Paths.maximumCandidates {
                joining?.addresses.append(target)
            }
            return dialForJoining([target], into: &outbox)
        }
        statistics.dials &+= 1
        outbox.append(.dial(DialRequest(addresses: [target], secretID: secret.id)))
    }
}
