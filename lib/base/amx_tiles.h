// Permission to use the AMX tile registers of x86 CPUs: 8 KiB of state that Linux grants only on request.
#pragma once

namespace fp {

// Requests the tiles for all threads of this process. Returns false if the kernel refuses them or the CPU has none.
bool request_amx_tiles();

}  // namespace fp
