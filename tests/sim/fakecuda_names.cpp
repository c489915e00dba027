// SPDX-License-Identifier: MIT
//
// What a kernel is called: the name in the library's own table of symbols, which is read when the
// first is asked for; what is stripped has none.
#include "fakecuda.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <map>

namespace fake
{

static std::string demangled(const char *symbol)
{
  int status = 0;
  char *text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string name = text ? text : symbol;
  free(text);
  return name;
}

static std::vector<char> contents(const char *path)
{
  std::vector<char> bytes;
  FILE *file = fopen(path, "rb");
  if (!file) return bytes;
  char part[1 << 16];
  while (size_t n = fread(part, 1, sizeof part, file))
    bytes.insert(bytes.end(), part, part + n);
  fclose(file);
  return bytes;
}

// Functions by their distance from where the library was loaded.
static std::map<uintptr_t, std::string> functions_of(const char *path)
{
  std::map<uintptr_t, std::string> found;
  std::vector<char> file = contents(path);
  if (file.size() < sizeof(Elf64_Ehdr)) return found;
  const Elf64_Ehdr *head = reinterpret_cast<const Elf64_Ehdr *>(file.data());
  const Elf64_Shdr *part = reinterpret_cast<const Elf64_Shdr *>(file.data() + head->e_shoff);
  for (int i = 0; i < head->e_shnum; i++) {
    if (part[i].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *s = reinterpret_cast<const Elf64_Sym *>(file.data() + part[i].sh_offset);
    const char *names = file.data() + part[part[i].sh_link].sh_offset;
    for (size_t k = 0; k < part[i].sh_size / sizeof *s; k++) {
      if (ELF64_ST_TYPE(s[k].st_info) == STT_FUNC) found[s[k].st_value] = names + s[k].st_name;
    }
  }
  return found;
}

std::string kernel_symbol(const void *kernel)
{
  static auto &functions = *new std::map<uintptr_t, std::string>;
  Dl_info info;
  if (!dladdr(kernel, &info)) return "";
  if (functions.empty()) functions = functions_of(info.dli_fname);
  uintptr_t at = reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(info.dli_fbase);
  auto found = functions.find(at);
  return found == functions.end() ? "" : found->second;
}

std::string kernel_name(const void *kernel)
{
  return demangled(kernel_symbol(kernel).c_str());
}

} // namespace fake
