-- SPDX-License-Identifier: MIT
--- Any text as numbers: each byte that occurs has one, in the order of the bytes.

local ffi = require 'ffi'
local C = require 'ridge.ffi.lib'
local blame = require 'ridge.blame'
local call = require 'ridge.ffi.call'
local file = require 'ridge.data.file'
local make = require('ridge.tensor.make').here
local ref = require 'ridge.ffi.ref'

local M = {}

local MOST = 2 ^ 31 - 2 ^ 12 -- bytes of a string

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
  local parts = {}
  for i, path in ipairs(paths) do
    parts[i] = file.with(path, 'data.text', function(f) return f:text(MOST) end)
  end
  local text = table.concat(parts)
  if #text == 0 then blame.raise(('data.text: %s is empty'):format(paths[1]), 'EFORMAT') end
  local bytes = ffi.cast('const uint8_t *', text)
  local seen = ffi.new 'int64_t[256]'
  for i = 0, #text - 1 do seen[bytes[i]] = seen[bytes[i]] + 1 end
  local letters, number_of, counts = {}, {}, {}
  for byte = 0, 255 do
    if seen[byte] > 0 then
      number_of[byte] = #letters
      letters[#letters + 1], counts[#counts + 1] = byte, tonumber(seen[byte])
    end
  end
  local numbers = ffi.new('uint8_t[?]', #text)
  for i = 0, #text - 1 do numbers[i] = number_of[bytes[i]] end
  local tokens = make.empty(#text, { dtype = 'u8' })
  call.check(C.rg_tensor_write(tokens._t, numbers, #text))
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
