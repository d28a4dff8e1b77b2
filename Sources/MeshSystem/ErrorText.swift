import Glibc
import MeshBase

// Words for people: what happened, and what to do about it. `code` is stable and for programs.

extension SystemError {
    /// A stable word for programs.
    public var code: String {
        switch self {
        case .portInUse: "portInUse"
        case .portForbidden: "portForbidden"
        case .noFreePort: "noFreePort"
        case .addressUnavailable: "addressUnavailable"
        case .entropyUnavailable: "entropyUnavailable"
        case .socketPathTooLong: "socketPathTooLong"
        case .socketInUse: "socketInUse"
        case .socketForeign: "socketForeign"
        case .socketAbsent: "socketAbsent"
        case .lineTooLong: "lineTooLong"
        case .closed: "closed"
        case .callFailed: "systemCallFailed"
        }
    }

    /// What happened, in one sentence without a full stop.
    public var message: String {
        switch self {
        case .portInUse(let port, let holder):
            "UDP port \(port) is in use" + (holder.map { " by \($0.text)" } ?? "")
        case .portForbidden(let port): "port \(port) is reserved: ports below 1024 need a right this user lacks"
        case .noFreePort(let first, let last): "every UDP port from \(first) to \(last) is in use"
        case .addressUnavailable(let address): "no interface of this machine has the address \(address.hostDescription)"
        case .entropyUnavailable(let number): "the kernel gave no random bytes (\(errorText(number)))"
        case .socketPathTooLong(let path, let byteCount, let limit):
            "the control socket's path is \(byteCount) bytes long and the limit is \(limit): \(SafeText.escaped(path))"
        case .socketInUse(let path): "another process answers on \(SafeText.escaped(path))"
        case .socketForeign(let path): "\(SafeText.escaped(path)) is not a control socket of this user"
        case .socketAbsent(let path): "nothing listens on \(SafeText.escaped(path))"
        case .lineTooLong(let limit): "a line is longer than \(limit) bytes"
        case .closed: "the connection was closed"
        case .callFailed(let call, let number): "\(call) failed: \(errorText(number))"
        }
    }

    /// What to do about it; `nil` where there is nothing to say.
    public var hint: String? {
        switch self {
        case .portInUse: "choose another port with --port, or leave --port out to take the next free one"
        case .portForbidden: "choose a port from 1024 upwards"
        case .noFreePort: "choose a port with --port"
        case .addressUnavailable: "see `ip address` for this machine's addresses"
        case .socketPathTooLong: "choose a shorter state directory, or set XDG_RUNTIME_DIR to a short path"
        case .socketInUse: "stop that node with `starling down`, or choose another name"
        case .socketForeign: "remove the file, or choose another name"
        default: nil
        }
    }
}

extension StorageError {
    /// A stable word for programs.
    public var code: String {
        switch self {
        case .inUse: "stateInUse"
        case .noSpace: "noSpace"
        case .readOnly: "readOnly"
        case .permissionDenied: "permissionDenied"
        case .notFound: "fileNotFound"
        case .noDirectory: "noDirectory"
        case .notADirectory: "notADirectory"
        case .notAFile: "notAFile"
        case .tooLarge: "fileTooLarge"
        case .fileChanged: "fileChanged"
        case .exists: "fileExists"
        case .unknownContent: "unknownContent"
        case .incompleteContent: "incompleteContent"
        case .invalidChunk: "invalidChunk"
        case .corrupt: "storageCorrupt"
        case .newerSchema: "newerSchema"
        case .syncFailed: "syncFailed"
        case .stopped: "storageStopped"
        case .callFailed: "systemCallFailed"
        case .catalogueFailed: "catalogueFailed"
        }
    }

    /// What happened, in one sentence without a full stop.
    public var message: String {
        switch self {
        case .inUse(let path, let pid):
            "the state in \(SafeText.escaped(path)) is in use" + (pid.map { " by process \($0)" } ?? "")
        case .noSpace(let path, let needed, let available):
            "no space for \(SafeText.escaped(path))"
                + (needed.map { ": \($0) bytes needed" } ?? "") + (available.map { ", \($0) bytes free" } ?? "")
        case .readOnly(let path): "\(SafeText.escaped(path)) is on a read-only file system"
        case .permissionDenied(let path): "no permission for \(SafeText.escaped(path))"
        case .notFound(let path): path.isEmpty ? "a file needs a name" : "there is no \(SafeText.escaped(path))"
        case .noDirectory(let path): "the directory above \(SafeText.escaped(path)) does not exist"
        case .notADirectory(let path): "\(SafeText.escaped(path)) is not a directory"
        case .notAFile(let path, let kind): "\(SafeText.escaped(path)) is \(kind.text), not a file"
        case .tooLarge(let path, let byteCount, let limit):
            "\(SafeText.escaped(path)) has \(byteCount) bytes and the limit is \(limit)"
        case .fileChanged(let path): "\(SafeText.escaped(path)) changed while it was read"
        case .exists(let path): "\(SafeText.escaped(path)) exists and has other content"
        case .unknownContent(let id): "no content \(id.shortDescription) is here"
        case .incompleteContent(let id): "content \(id.shortDescription) is not complete here"
        case .invalidChunk(let id, let index): "content \(id.shortDescription) has no such chunk \(index)"
        case .corrupt(let path): "\(SafeText.escaped(path)) is damaged"
        case .newerSchema(let path, let found, let supported):
            "\(SafeText.escaped(path)) was written by a newer version (format \(found), this one knows \(supported))"
        case .syncFailed(let path, let number):
            "writing \(SafeText.escaped(path)) to the disk failed: \(errorText(number))"
        case .stopped: "the store is closed"
        case .callFailed(let call, let path, let number): "\(call) \(SafeText.escaped(path)): \(errorText(number))"
        case .catalogueFailed(let path, _, let text): "\(SafeText.escaped(path)): \(SafeText.escaped(text))"
        }
    }

    /// What to do about it; `nil` where there is nothing to say.
    public var hint: String? {
        switch self {
        case .inUse: "attach to that node instead, stop it with `starling down`, or choose another --node name"
        case .noSpace: "free some space, or remove attachments with `starling journal rm`"
        case .readOnly, .permissionDenied: "choose another state directory with STARLING_STATE"
        case .notAFile(_, .directory): "add the files in it one by one, or an archive of it"
        case .fileChanged: "add it again when nothing writes to it"
        case .exists: "use --force to replace it"
        case .corrupt:
            "damaged attachments are fetched again; a damaged catalogue holds the node's identity: restore it from a backup"
        case .newerSchema: "use the newer version, or another state directory"
        case .syncFailed, .stopped: "check the disk and start the node again: it verifies what is there"
        default: nil
        }
    }
}

extension ProcessName {
    /// `starling (pid 4711)`.
    public var text: String { command.isEmpty ? "pid \(pid)" : "\(SafeText.escaped(command)) (pid \(pid))" }
}

extension FileKind {
    fileprivate var text: String {
        switch self {
        case .directory: "a folder"
        case .pipe: "a pipe"
        case .socket: "a socket"
        case .device: "a device"
        case .linkLoop: "a link that leads nowhere"
        case .other: "something else"
        }
    }
}

/// The system's words for an errno.
private func errorText(_ number: Int32) -> String {
    unsafe strerror(number).map { unsafe String(cString: $0) } ?? "error \(number)"
}
