-- SPDX-License-Identifier: MIT
--- CIFAR in its binary form (cs.toronto.edu/~kriz/cifar.html): for each image one label byte (two
--- for CIFAR-100, coarse and fine), then 32 x 32 bytes of red, of green and of blue.

local blame = require 'ridge.blame'
local file = require 'ridge.data.file'
local make = require('ridge.tensor.make').here
local ops = require 'ridge.tensor.ops'

local M = {}

local PIXELS = 3 * 32 * 32
local MOST = 2 ^ 31

-- One file: rows of labels and pixels, as bytes.
local function rows_of(path, labels)
  return file.with(path, 'data.cifar', function(f)
    local parts, bytes = f:parts(MOST + 1)
    local one = labels + PIXELS
    if bytes > MOST then
      blame.raise(('data.cifar: %s has more than %d bytes'):format(path, MOST), 'EFORMAT')
    elseif bytes == 0 or bytes % one ~= 0 then
      blame.raise(('data.cifar: %s has %d bytes, which is %.2f images of %d'):format(path, bytes,
        bytes / one, one), 'EFORMAT')
    end
    local x = make.empty(bytes / one, one, { dtype = 'u8' })
    file.pour(parts, x, 'data.cifar')
    return x
  end)
end

local function set_of(paths, labels)
  local list = {}
  for i, path in ipairs(paths) do list[i] = rows_of(path, labels) end
  local all = #list == 1 and list[1] or ops.concat(list, 1)
  local n = all:size(1)
  return { images = all:narrow(2, labels + 1, PIXELS):contiguous():reshape(n, 3, 32, 32),
    labels = all:narrow(2, labels, 1):contiguous():reshape(n) }
end

--- The images and labels of a folder with CIFAR-10's files (data_batch_1.bin .., test_batch.bin) or
--- CIFAR-100's (train.bin, test.bin; the fine labels).
---@param folder string
---@return table sets train and test, each with images u8 [n x 3 x 32 x 32] and labels u8 [n]
function M.read(folder)
  if type(folder) ~= 'string' then
    blame.raise(('data.cifar: a folder is expected, got %s'):format(blame.show(folder)))
  end
  if file.exists(folder .. '/train.bin', 'data.cifar') then
    return { train = set_of({ folder .. '/train.bin' }, 2), test = set_of({ folder .. '/test.bin' },
      2) }
  end
  local parts = {}
  for i = 1, 5 do
    local path = ('%s/data_batch_%d.bin'):format(folder, i)
    if file.exists(path, 'data.cifar') then parts[#parts + 1] = path end
  end
  if #parts == 0 then
    blame.raise('data.cifar: there is neither data_batch_1.bin nor train.bin in ' .. folder, 'EIO')
  end
  return { train = set_of(parts, 1), test = set_of({ folder .. '/test_batch.bin' }, 1) }
end

return M
