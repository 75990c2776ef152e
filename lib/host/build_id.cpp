#include "host/build_id.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>

#include "io/filesystem.h"

namespace fp {
namespace {

size_t padded(size_t bytes) { return (bytes + 3) / 4 * 4; }

// Returns the build id in the ELF notes of [at, at + bytes); empty: none.
std::string id_among(const char* at, size_t bytes) {
  for (ElfW(Nhdr) note{}; bytes >= sizeof note;) {
    std::memcpy(&note, at, sizeof note);
    const size_t name = sizeof note, content = name + padded(note.n_namesz), next = content + padded(note.n_descsz);
    if (next > bytes) return {};
    if (note.n_type == NT_GNU_BUILD_ID && std::string_view(at + name, note.n_namesz) == std::string_view("GNU", 4)) {
      std::string hex;
      for (size_t i = 0; i < note.n_descsz; ++i) hex += fmt::format("{:02x}", static_cast<uint8_t>(at[content + i]));
      return hex;
    }
    at += next;
    bytes -= next;
  }
  return {};
}

// The first object listed is the program itself.
int find_id(dl_phdr_info* object, size_t, void* id) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const std::string found = id_among(notes, segment.p_memsz);
    if (!found.empty()) *static_cast<std::string*>(id) = found;
  }
  return 1;
}

}  // namespace

std::string build_id() {
  std::string id;
  ::dl_iterate_phdr(find_id, &id);
  return id.empty() ? hash_file("/proc/self/exe") : id;
}

}  // namespace fp
