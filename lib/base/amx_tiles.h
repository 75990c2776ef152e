// The tile registers of x86 CPUs with AMX, 8 KiB that Linux hands out only on request.
#pragma once

namespace fp {

// Asks for them, for all threads of this process. False where the kernel does not grant them or there are none.
bool request_amx_tiles();

}  // namespace fp
