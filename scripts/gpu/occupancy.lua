-- SPDX-License-Identifier: MIT
--- How many blocks of a kernel a multiprocessor holds at once: "Compute Capabilities" of the CUDA
--- C++ Programming Guide, computed as NVIDIA's occupancy calculator does.

local M = {}

-- Registers are given to a warp in pieces of 256, by the quarter of the multiprocessor it runs on.
local WARP, PIECE, QUARTERS = 32, 256, 4

--- What a multiprocessor has, by capability: warps, blocks, registers, and bytes of shared memory;
--- 1 KiB of those is taken for each block.
M.LIMITS = {
  [80] = { warps = 64, blocks = 32, registers = 65536, smem = 164 * 1024 },
  [86] = { warps = 48, blocks = 16, registers = 65536, smem = 100 * 1024 },
  [89] = { warps = 48, blocks = 24, registers = 65536, smem = 100 * 1024 },
  [90] = { warps = 64, blocks = 32, registers = 65536, smem = 228 * 1024 },
  [100] = { warps = 64, blocks = 32, registers = 65536, smem = 228 * 1024 },
}

local function up(n, step) return math.ceil(n / step) * step end

--- Blocks of a kernel that one multiprocessor holds.
---@param capability integer 90 for 9.0; one of LIMITS
---@param registers integer a thread
---@param threads integer a block
---@param smem integer bytes of shared memory a block, static and dynamic
---@return integer blocks
---@return string limit what there is no more of: 'threads', 'blocks', 'registers', 'shared memory'
---@return number occupancy share of the warps that may be there
function M.blocks(capability, registers, threads, smem)
  local has = M.LIMITS[capability]
  local warps = math.ceil(threads / WARP)
  local per_warp = up(math.max(registers, 1) * WARP, PIECE)
  local by = {
    { 'threads', math.floor(has.warps / warps) },
    { 'blocks', has.blocks },
    { 'registers', math.floor(math.floor(has.registers / QUARTERS / per_warp) * QUARTERS / warps) },
    { 'shared memory', math.floor(has.smem / (up(smem, 128) + 1024)) },
  }
  local least = by[1]
  for _, one in ipairs(by) do
    if one[2] < least[2] then least = one end
  end
  return least[2], least[1], least[2] * warps / has.warps
end

return M
