import MeshBase

/// A file name made of an attachment's name, which other people choose: always one component of one folder, never
/// hidden, never longer than a file system takes (AB-83, ATT-02, ATT-04).
///
/// What is unsafe is written as `%` and two hexadecimal digits per byte, as in a URL, so that the original can be read
/// back; the journal keeps the name as it was given. File systems shared with other systems refuse more: there their
/// rules hold too, before a byte is copied (ATT-03).
public enum SafeFileName {
    public static let maximumBytes = 255
    /// Longer "extensions" are not extensions.
    private static let maximumExtensionBytes = 32

    /// What FAT, NTFS and Windows shares refuse inside a name.
    private static let narrowlyRefused: Set<Unicode.Scalar> = ["\"", "*", ":", "<", ">", "?", "|"]
    /// Names that are devices there, with any extension.
    private static let devices: Set<String> = Set(
        ["CON", "PRN", "AUX", "NUL"] + (1...9).flatMap { ["COM\($0)", "LPT\($0)"] })

    /// The name, and how it differs from the given one. `isNarrow`: for a file system with the rules of other systems.
    public static func make(_ name: String, isNarrow: Bool = false) -> (name: String, change: NameChange?) {
        let relative = name.hasPrefix("./") ? String(name.drop { $0 == "." || $0 == "/" }) : name
        var safe = relative.isEmpty ? "attachment" : escaped(relative, isNarrow: isNarrow)
        if safe.hasPrefix(".") { safe = "%2E" + safe.dropFirst() }
        if isNarrow { safe = narrowed(safe) }
        let fitting = shortened(safe, maximumBytes: maximumBytes)
        if fitting != safe { return (fitting, .shortened) }
        // Compared by bytes: two names that only look the same are different names.
        return (safe, Array(safe.utf8) == Array(name.utf8) ? nil : .madeSafe)
    }

    /// `name (2).txt` for number 2, still within the limit.
    public static func numbered(_ name: String, _ number: Int) -> String {
        let parts = split(name)
        let suffix = " (\(number))" + parts.ending
        return SafeText.shortened(parts.stem, maximumBytes: maximumBytes - suffix.utf8.count) + suffix
    }

    /// Cut at a character, the extension kept.
    static func shortened(_ name: String, maximumBytes: Int) -> String {
        guard name.utf8.count > maximumBytes else { return name }
        let parts = split(name)
        let stem = SafeText.shortened(parts.stem, maximumBytes: maximumBytes - parts.ending.utf8.count)
        // One character may be longer than the limit: then its first scalars, which are at least valid text.
        return (stem.isEmpty ? scalarPrefix(parts.stem, maximumBytes - parts.ending.utf8.count) : stem) + parts.ending
    }

    private static func scalarPrefix(_ text: String, _ maximumBytes: Int) -> String {
        var output = String.UnicodeScalarView()
        var size = 0
        for scalar in text.unicodeScalars {
            size += UTF8.width(scalar)
            if size > maximumBytes { break }
            output.append(scalar)
        }
        return String(output)
    }

    private static func split(_ name: String) -> (stem: String, ending: String) {
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return (name, "") }
        let ending = String(name[dot...])
        guard ending.utf8.count > 1, ending.utf8.count <= maximumExtensionBytes else { return (name, "") }
        return (String(name[..<dot]), ending)
    }

    /// A dot or space at the end is dropped there without a word, and a device's name opens the device.
    private static func narrowed(_ name: String) -> String {
        var output = name
        if let last = output.last, last == "." || last == " " {
            output = output.dropLast() + (last == "." ? "%2E" : "%20")
        }
        let stem = output.prefix { $0 != "." }.uppercased()
        if devices.contains(stem), let first = output.utf8.first {
            output = "%" + Hexadecimal.encode([first]).uppercased() + output.dropFirst()
        }
        return output
    }

    private static func escaped(_ name: String, isNarrow: Bool) -> String {
        var output = String.UnicodeScalarView()
        for scalar in name.unicodeScalars {
            if isSafe(scalar), !(isNarrow && narrowlyRefused.contains(scalar)) {
                output.append(scalar)
            } else {
                for byte in UTF8.encode(scalar).map(Array.init) ?? [] {
                    output.append(contentsOf: ("%" + Hexadecimal.encode([byte]).uppercased()).unicodeScalars)
                }
            }
        }
        return String(output)
    }

    /// Not a separator of any system's paths, not a control code, not a direction override.
    private static func isSafe(_ scalar: Unicode.Scalar) -> Bool {
        if scalar == "/" || scalar == "\\" { return false }
        switch scalar.properties.generalCategory {
        case .control, .lineSeparator, .paragraphSeparator, .surrogate: return false
        // Joiners shape letters and emoji; other format characters hide or reverse text.
        case .format:
            return scalar.value == 0x200c || scalar.value == 0x200d || (0xe0020...0xe007f).contains(scalar.value)
        default: return true
        }
    }
}

extension UTF8 {
    fileprivate static func width(_ scalar: Unicode.Scalar) -> Int { String(Character(scalar)).utf8.count }
}
