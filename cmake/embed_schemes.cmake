# Writes OUTPUT: the TOML files of FOLDER as string literals. Run as: cmake -DFOLDER=... -DOUTPUT=... -P embed_schemes.cmake
file(GLOB files ${FOLDER}/*.toml)
list(SORT files)
set(rows "")
foreach(file IN LISTS files)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND rows "    {\"${name}\", R\"toml(${text})toml\"},\n")
endforeach()
file(WRITE ${OUTPUT}.new "// Made from schemes/*.toml by cmake/embed_schemes.cmake.
#include \"norma/nn/catalogue.h\"

namespace norma {

namespace {

constexpr BuiltinScheme kSchemes[] = {
${rows}};

}  // namespace

std::span<const BuiltinScheme> builtin_schemes() { return kSchemes; }

}  // namespace norma
")
file(COPY_FILE ${OUTPUT}.new ${OUTPUT} ONLY_IF_DIFFERENT)
file(REMOVE ${OUTPUT}.new)
