// The target of the precompiled headers of all tests (tests/CMakeLists.txt).
