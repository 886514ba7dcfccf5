# Run at every build: writes OUTPUT, the revision that provenance names, when it changed. VERSION alone where there is no git checkout.
execute_process(COMMAND git describe --always --dirty --abbrev=9 --match "" WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE commit
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
set(revision ${VERSION})
if(EXISTS ${SOURCE}/.git AND status EQUAL 0)
  string(APPEND revision "+g${commit}")
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define QUANTEM_REVISION \"@revision@\"\n" @ONLY)
