// SPDX-License-Identifier: GPL-2.0-only
#include "shared_object.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace bbrgym
{

namespace
{

#if defined(__x86_64__)
constexpr Elf64_Half MACHINE = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half MACHINE = EM_AARCH64;
#elif defined(__riscv)
constexpr Elf64_Half MACHINE = EM_RISCV;
#else
#error "the machine number that ELF has for this processor"
#endif
constexpr unsigned char DATA = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
constexpr uint64_t MAX_SEGMENT_BYTES = 1 << 28;
constexpr uint64_t MAX_ADDRESS = uint64_t{1} << 40;

/** A file's headers, each read within its size. */
class ElfFile
{
  public:
    explicit ElfFile(const std::string& path) : m_path(path)
    {
        std::error_code error;
        const auto status = std::filesystem::status(path, error);
        if (!std::filesystem::exists(status))
        {
            Refuse("there is no such file");
        }
        if (!std::filesystem::is_regular_file(status)) // before it is opened: a FIFO would wait for a writer
        {
            Refuse("it is not a regular file");
        }
        m_bytes = std::filesystem::file_size(path, error);
        m_stream.open(path, std::ios::binary);
        if (error || !m_stream)
        {
            Refuse("it cannot be read");
        }
        m_header = Read<Elf64_Ehdr>(0, 1).front();
        CheckHeader();
    }

    std::vector<Elf64_Phdr> Segments() { return Read<Elf64_Phdr>(m_header.e_phoff, m_header.e_phnum); }
    std::vector<Elf64_Shdr> Sections() { return Read<Elf64_Shdr>(m_header.e_shoff, m_header.e_shnum); }

    bool Holds(uint64_t offset, uint64_t bytes) const { return offset <= m_bytes && bytes <= m_bytes - offset; }

    [[noreturn]] void Refuse(const std::string& why) const
    {
        throw std::invalid_argument("policy: cannot be loaded: '" + m_path + "': " + why +
                                    ", expected a shared object of this machine");
    }

  private:
    template <class Row> std::vector<Row> Read(uint64_t offset, std::size_t count)
    {
        if (!Holds(offset, count * sizeof(Row)))
        {
            Refuse("it ends after " + std::to_string(m_bytes) + " bytes, within its headers");
        }
        std::vector<Row> rows(count);
        m_stream.seekg(static_cast<std::streamoff>(offset));
        m_stream.read(reinterpret_cast<char*>(rows.data()), static_cast<std::streamsize>(count * sizeof(Row)));
        if (!m_stream)
        {
            Refuse("it cannot be read");
        }
        return rows;
    }

    void CheckHeader() const
    {
        const auto& ident = m_header.e_ident;
        if (std::memcmp(ident, ELFMAG, SELFMAG) != 0)
        {
            Refuse("it does not begin as an ELF object");
        }
        if (ident[EI_CLASS] != ELFCLASS64 || ident[EI_DATA] != DATA || ident[EI_VERSION] != EV_CURRENT ||
            m_header.e_machine != MACHINE || m_header.e_version != EV_CURRENT)
        {
            Refuse("it is for another machine");
        }
        if (m_header.e_type != ET_DYN || m_header.e_phnum == 0 || m_header.e_shnum == 0 ||
            m_header.e_ehsize != sizeof(Elf64_Ehdr) || m_header.e_phentsize != sizeof(Elf64_Phdr) ||
            m_header.e_shentsize != sizeof(Elf64_Shdr))
        {
            Refuse("it is not a shared object with segments and sections");
        }
    }

    std::string m_path;
    std::ifstream m_stream;
    uint64_t m_bytes = 0;
    Elf64_Ehdr m_header{};
};

/** Whether one range lies within another. */
bool
IsWithin(uint64_t begin, uint64_t bytes, uint64_t outer_begin, uint64_t outer_bytes)
{
    return begin >= outer_begin && bytes <= outer_bytes && begin - outer_begin <= outer_bytes - bytes;
}

/** Whether a segment has a section, at the same place of the file and of memory, with what the section may be used for.
 */
bool
Has(const Elf64_Phdr& segment, const Elf64_Shdr& section)
{
    const bool is_in_file = section.sh_type == SHT_NOBITS ||
                            IsWithin(section.sh_offset, section.sh_size, segment.p_offset, segment.p_filesz);
    const bool is_at_place =
        section.sh_type == SHT_NOBITS || section.sh_addr - segment.p_vaddr == section.sh_offset - segment.p_offset;
    const auto needed = static_cast<Elf64_Word>(PF_R | ((section.sh_flags & SHF_WRITE) != 0 ? PF_W : 0) |
                                                ((section.sh_flags & SHF_EXECINSTR) != 0 ? PF_X : 0));
    return is_in_file && is_at_place && (segment.p_flags & needed) == needed &&
           IsWithin(section.sh_addr, section.sh_size, segment.p_vaddr, segment.p_memsz);
}

} // namespace

std::vector<Elf64_Phdr>
SegmentsOf(const std::string& path)
{
    ElfFile file(path);
    const std::vector<Elf64_Phdr> all = file.Segments();
    const std::vector<Elf64_Shdr> sections = file.Sections();
    std::vector<Elf64_Phdr> mapped;
    for (const Elf64_Phdr& segment : all)
    {
        if (!file.Holds(segment.p_offset, segment.p_filesz))
        {
            file.Refuse("it ends within a segment");
        }
        if (segment.p_type == PT_LOAD)
        {
            const bool follows = mapped.empty() || segment.p_vaddr >= mapped.back().p_vaddr + mapped.back().p_memsz;
            if (segment.p_filesz > segment.p_memsz || segment.p_memsz > MAX_SEGMENT_BYTES ||
                segment.p_vaddr > MAX_ADDRESS || !follows || !std::has_single_bit(segment.p_align) ||
                (segment.p_vaddr - segment.p_offset) % segment.p_align != 0)
            {
                file.Refuse("a segment has an impossible place or size");
            }
            mapped.push_back(segment);
        }
    }
    for (const Elf64_Phdr& part :
         all) // the others tell the loader where in those something is, such as what it protects in the end
    {
        const auto has_it = [&part](const Elf64_Phdr& segment) {
            return IsWithin(part.p_vaddr, part.p_memsz, segment.p_vaddr, segment.p_memsz) &&
                   (part.p_type != PT_GNU_RELRO || (segment.p_flags & PF_W) != 0);
        };
        if (part.p_type != PT_LOAD && part.p_type != PT_GNU_STACK && std::ranges::none_of(mapped, has_it))
        {
            file.Refuse("a part lies in no segment");
        }
    }
    const auto lies_in_segment = [&mapped](const Elf64_Shdr& section) {
        return std::ranges::any_of(mapped, [&section](const Elf64_Phdr& segment) { return Has(segment, section); });
    };
    bool has_dynamic = false;
    for (const Elf64_Shdr& section : sections)
    {
        if (section.sh_type != SHT_NOBITS && !file.Holds(section.sh_offset, section.sh_size))
        {
            file.Refuse("it ends within a section");
        }
        if ((section.sh_flags & SHF_ALLOC) != 0 && (section.sh_flags & SHF_TLS) == 0 && !lies_in_segment(section))
        {
            file.Refuse("a section lies in no segment");
        }
        has_dynamic = has_dynamic || (section.sh_type == SHT_DYNAMIC &&
                                      std::ranges::any_of(all, [&section](const Elf64_Phdr& segment) {
                                          return segment.p_type == PT_DYNAMIC && segment.p_vaddr == section.sh_addr &&
                                                 segment.p_memsz == section.sh_size;
                                      }));
    }
    if (mapped.empty() || !has_dynamic)
    {
        file.Refuse("it says nothing to the loader");
    }
    return mapped;
}

} // namespace bbrgym
