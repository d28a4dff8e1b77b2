import CMeshSystem
import Glibc

/// The file calls whose failure or order decides whether something survives a power cut. Tests record them and make
/// them fail; everything else goes to the system directly. Results: a count or 0, or a negative errno.
protocol FileOperations: Sendable {
    func write(_ descriptor: Int32, _ bytes: Span<UInt8>, at offset: UInt64) -> Int
    /// Content to the device (`fdatasync`), or for a folder its entries (`fsync`).
    func synchronize(_ descriptor: Int32, isDirectory: Bool) -> Int32
    func rename(_ source: String, to target: String) -> Int32
    func remove(_ path: String) -> Int32
    /// Whether the file system of an open folder takes every name that Linux itself takes.
    func takesAnyName(_ descriptor: Int32) -> Bool
}

struct LinuxFileOperations: FileOperations {
    func write(_ descriptor: Int32, _ bytes: Span<UInt8>, at offset: UInt64) -> Int {
        let put = unsafe bytes.withUnsafeBufferPointer { buffer in
            unsafe pwrite(descriptor, buffer.baseAddress, buffer.count, off_t(clamping: offset))
        }
        return put < 0 ? -Int(errno) : put
    }

    func synchronize(_ descriptor: Int32, isDirectory: Bool) -> Int32 {
        let result = isDirectory ? fsync(descriptor) : fdatasync(descriptor)
        return result < 0 ? -errno : 0
    }

    func rename(_ source: String, to target: String) -> Int32 {
        unsafe Glibc.rename(source, target) < 0 ? -errno : 0
    }

    func remove(_ path: String) -> Int32 {
        unsafe Glibc.unlink(path) < 0 ? -errno : 0
    }

    /// By the kinds that other systems share with us: FAT, exFAT, NTFS in both drivers, and the two of Windows shares.
    func takesAnyName(_ descriptor: Int32) -> Bool {
        let narrow: Set<Int64> = [0x4d44, 0x2011_bab0, 0x5346_544e, 0x7366_746e, 0xff53_4d42, 0xfe53_4d42]
        // Some kernels hand the number out with its sign.
        return !narrow.contains(mesh_file_system_kind(descriptor) & 0xffff_ffff)
    }
}

extension StorageError {
    /// The typed form of an errno at `path`.
    static func system(_ number: Int32, _ call: String, path: String) -> StorageError {
        switch number {
        case ENOSPC, EDQUOT: .noSpace(path: path, needed: nil, available: FileSystemSpace.available(at: path))
        case EROFS: .readOnly(path: path)
        case EACCES, EPERM: .permissionDenied(path: path)
        case ENOENT, ENOTDIR, ENAMETOOLONG: .notFound(path: path)
        case ELOOP: .notAFile(path: path, kind: .linkLoop)
        default: .callFailed(call: call, path: path, errorNumber: number)
        }
    }
}

/// Room on a file system.
enum FileSystemSpace {
    /// Bytes an ordinary user may still write on the file system of `path`, or of the folder it would stand in.
    static func available(at path: String) -> UInt64? {
        information(at: path).map { bytes($0, blocks: UInt64($0.f_bavail)) }
    }

    static func isReadOnly(at path: String) -> Bool {
        information(at: path).map { $0.f_flag & UInt(ST_RDONLY) != 0 } ?? false
    }

    /// What the store leaves free for everything else on the file system of `path`: 5 % of it, at most 1 GiB.
    static func reserve(at path: String) -> UInt64 {
        information(at: path).map { min(bytes($0, blocks: UInt64($0.f_blocks)) / 20, 1 << 30) } ?? 0
    }

    private static func information(at path: String) -> statvfs? {
        var information = statvfs()
        let parent = String(path[..<(path.lastIndex(of: "/") ?? path.startIndex)])
        let isKnown = unsafe statvfs(path, &information) == 0 || statvfs(parent, &information) == 0
        return isKnown ? information : nil
    }

    private static func bytes(_ information: statvfs, blocks: UInt64) -> UInt64 {
        let (bytes, overflow) = blocks.multipliedReportingOverflow(by: UInt64(information.f_frsize))
        return overflow ? .max : bytes
    }
}
