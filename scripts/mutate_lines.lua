-- SPDX-License-Identifier: MIT
-- mutate_lines: which lines of C belong to the addresses that an image noted (mutate_cover.c).
--
-- A basic block begins with a call of the hook and ends where the next one begins: the copy that
-- counts is not optimized.  The calls are found in the image's code, the lines of their addresses
-- in its debug information.

local ffi = require "ffi"
local bit = require "bit"

local M = {}

local HOOK = "__sanitizer_cov_trace_pc"
local CALL = 5 -- bytes of one

local function quoted(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function output(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "*a"
  pipe:close()
  return text
end

-- Where the code of an image calls the hook, ascending.
local function calls_of(path)
  local hook = output("nm " .. quoted(path) .. " 2>/dev/null"):match("(%x+) %a " .. HOOK)
  local at, offset, size = output("readelf -SW " .. quoted(path) .. " 2>/dev/null")
    :match " %.text +PROGBITS +(%x+) (%x+) (%x+)"
  if not hook or not at then return {} end
  hook, at, offset, size = tonumber(hook, 16), tonumber(at, 16), tonumber(offset, 16),
    tonumber(size, 16)
  local file = assert(io.open(path, "rb"))
  file:seek("set", offset)
  local text = file:read(size)
  file:close()
  local bytes, list = ffi.cast("const uint8_t *", text), {}
  for i = 0, #text - CALL do
    if bytes[i] == 0xe8 then
      local far = bit.bor(bytes[i + 1], bit.lshift(bytes[i + 2], 8), bit.lshift(bytes[i + 3], 16),
        bit.lshift(bytes[i + 4], 24))
      if at + i + CALL + far == hook then list[#list + 1] = at + i end
    end
  end
  return list
end

-- Number of the last call at or before an address.
local function last_before(calls, address)
  local low, high = 0, #calls
  while low < high do
    local middle = math.ceil((low + high) / 2)
    if calls[middle] <= address then low = middle else high = middle - 1 end
  end
  return low
end

-- A source of ours that mutants are planted in, by its path; nil of any other.
local function ours(folder, name)
  local path = (folder and folder ~= "" and folder .. "/" or "") .. name
  path = path:gsub("^.*/(core/)", "%1"):gsub("^%./", "")
  if path:find "^core/.*%.c$" or path:find "^lua/.*%.c$" or path:find "^gpu/.*%.cu?$" then
    return path
  end
end

--- The lines of an image: by the address behind a call of the hook, those of the block it begins.
---@param path string a program or library
---@return table blocks address to list of `path:line`
function M.blocks(path)
  local calls, lines = calls_of(path), {}
  local folders, files, file = {}, {}, nil
  if output "command -v llvm-dwarfdump" == "" then -- no line would be reached, without a word
    error("mutate: there is no llvm-dwarfdump; scripts/deps mutate installs it", 0)
  end
  local pipe = assert(io.popen("llvm-dwarfdump --debug-line " .. quoted(path) .. " 2>/dev/null"))
  for text in pipe:lines() do
    local address, line, index = text:match "^0x(%x+) +(%d+) +%d+ +(%d+) "
    if address then
      local source = files[tonumber(index)]
      local k = source and line ~= "0" and last_before(calls, tonumber(address, 16)) or 0
      if k > 0 then
        lines[k] = lines[k] or {}
        lines[k][source .. ":" .. line] = true
      end
    elseif text:find "^debug_line%[" then
      folders, files = {}, {}
    else
      local n, folder = text:match '^include_directories%[ *(%d+)%] = "(.*)"'
      if n then folders[tonumber(n)] = tonumber(n) > 0 and folder or "" end
      n = text:match "^file_names%[ *(%d+)%]"
      if n then file = { tonumber(n) } end
      if file then
        file.name = text:match '^ +name: "(.*)"' or file.name
        n = text:match "^ +dir_index: (%d+)"
        if n then files[file[1]] = ours(folders[tonumber(n)], file.name) end
      end
    end
  end
  pipe:close()
  local blocks = {}
  for k, set in pairs(lines) do
    local list = {}
    for line in pairs(set) do list[#list + 1] = line end
    blocks[calls[k] + CALL] = list
  end
  return blocks
end

return M
