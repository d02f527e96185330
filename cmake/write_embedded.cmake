# Called with cmake -P by caravan_embed_files(). The assembler takes the files as they are.
set(bytes "")
set(rows "")
set(n 0)
foreach(file IN LISTS FILES)
  file(SHA256 ${FOLDER}/${file} hash)
  string(APPEND bytes "asm(\".section .rodata\\nembedded_${n}:\\n.incbin \\\"${FOLDER}/${file}\\\"\\nembedded_${n}_end:\\n.previous\\n\");\n")
  string(APPEND bytes "extern const char begin_${n}[] asm(\"embedded_${n}\");\nextern const char end_${n}[] asm(\"embedded_${n}_end\");\n")
  string(APPEND rows "    {\"${file}\", {begin_${n}, static_cast<std::size_t>(end_${n} - begin_${n})}, \"${hash}\"},\n")
  math(EXPR n "${n} + 1")
endforeach()
file(WRITE ${MADE} "#include \"nodes/http/embedded_file.hpp\"\n\n#include <cstddef>\n\n${bytes}\nnamespace caravan::http {\n
std::span<const embedded_file> embedded_files() {\n  static const embedded_file all[] = {\n${rows}  };\n  return all;\n}\n\n}  // namespace caravan::http\n")
