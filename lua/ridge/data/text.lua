-- SPDX-License-Identifier: MIT
--- Any text as numbers: each byte that occurs has one, in the order of the bytes.

local ffi = require 'ffi'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local file = require 'ridge.data.file'
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'

local M = {}

local MOST = 2 ^ 31 - 2 ^ 12 -- bytes of a file

-- How often each byte occurs, added to what was counted before.
local function count(bytes, n, seen)
  call.look 'data.text'
  for i = 0, n - 1 do seen[bytes[i]] = seen[bytes[i]] + 1 end
end

-- Each byte by its number.
local function rename(bytes, n, numbers)
  call.look 'data.text'
  for i = 0, n - 1 do bytes[i] = numbers[bytes[i]] end
end

--- The bytes of a file, or of several one after the other, as numbers from 0.
---@param paths string|string[]
---@return table text tokens (Tensor u8 [n]), letters (list: the byte of number i - 1), number_of
---  (byte to number), counts (list), decode(numbers, or a tensor of them) -> string
-- >> ridge.data.text('/usr/share/common-licenses/BSD').tokens.shape
function M.read(paths)
  if type(paths) == 'string' then paths = { paths } end
  if type(paths) ~= 'table' or #paths == 0 then
    blame.raise('data.text: a path, or a list of them, is expected, got ' .. blame.show(paths))
  end
  local parts, all = {}, 0
  for _, path in ipairs(paths) do
    local own, bytes = file.with(path, 'data.text', function(f) return f:parts(MOST + 1) end)
    if bytes > MOST then
      blame.raise(('data.text: %s has more than %d bytes'):format(path, MOST), 'EFORMAT')
    end
    for _, part in ipairs(own) do parts[#parts + 1] = part[2] > 0 and part or nil end
    all = all + bytes
  end
  if all == 0 then blame.raise(('data.text: %s is empty'):format(paths[1]), 'EFORMAT') end
  local seen = ffi.new 'int64_t[256]'
  for _, part in ipairs(parts) do count(part[1], part[2], seen) end
  local letters, number_of, counts = {}, {}, {}
  for byte = 0, 255 do
    if seen[byte] > 0 then
      number_of[byte] = #letters
      letters[#letters + 1], counts[#counts + 1] = byte, tonumber(seen[byte])
    end
  end
  local numbers = ffi.new 'uint8_t[256]'
  for byte, number in pairs(number_of) do numbers[byte] = number end
  for _, part in ipairs(parts) do rename(part[1], part[2], numbers) end
  local tokens = make.empty(all, { dtype = 'u8' })
  file.pour(parts, tokens, 'data.text')
  return { tokens = tokens, letters = letters, number_of = number_of, counts = counts,
    decode = function(list)
      if ref.is(list) then list = list:reshape(-1):tolist() end
      if type(list) ~= 'table' then
        blame.raise('data.text: decode takes numbers, or a tensor of them, got '
          .. blame.show(list))
      end
      local out = {}
      for i, number in ipairs(list) do
        local letter = type(number) == 'number' and letters[number + 1]
        if not letter then
          blame.raise(('data.text: number %d, %s, is no letter; they go from 0 to %d'):format(i,
            blame.show(number), #letters - 1))
        end
        out[i] = string.char(letter)
      end
      return table.concat(out)
    end }
end

return M
