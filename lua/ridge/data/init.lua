-- SPDX-License-Identifier: MIT
--- Data sets: files of numbers, and batches of them.

local blame = require 'ridge.blame'
local file = require 'ridge.data.file'
local idx = require 'ridge.data.idx'
local late = require 'ridge.late'
local loader = require 'ridge.data.loader'
local rows = require 'ridge.data.rows'
local segments = require 'ridge.data.segments'
require 'ridge.tensor' -- without `ridge` too, files become tensors

local M = { idx = idx.read, Loader = loader.Loader, rows = rows.rows,
  segments = segments.segments }

local LATE = {
  npy = { 'ridge.data.npy', 'read' }, csv = { 'ridge.data.csv', 'read' },
  stream = { 'ridge.data.stream', 'stream' },
  cifar = { 'ridge.data.cifar', 'read' }, text = { 'ridge.data.text', 'read' },
}

-- A file of MNIST's own name, packed or not.
local function find(folder, name)
  for _, path in ipairs { folder .. '/' .. name, folder .. '/' .. name .. '.gz' } do
    if file.exists(path, 'data.mnist') then return path end
  end
  blame.raise(('data.mnist: there is no %s, packed or not, in %s'):format(name, folder), 'EIO')
end

--- The images and labels of a folder with the four files of MNIST (or one that is named alike).
---@param folder string
---@return table sets train and test, each with images u8 [n x rows x columns] and labels u8 [n]
function M.mnist(folder)
  if type(folder) ~= 'string' then
    blame.raise(('data.mnist: a folder is expected, got %s'):format(blame.show(folder)))
  end
  local out = {}
  for i, name in ipairs { 'train', 'test' } do
    local start = i == 1 and 'train' or 't10k'
    local images = idx.read(find(folder, start .. '-images-idx3-ubyte'))
    local labels = idx.read(find(folder, start .. '-labels-idx1-ubyte'))
    if #images:size() ~= 3 or #labels:size() ~= 1 or images:size(1) ~= labels:size(1) then
      blame.raise(('data.mnist: %s images and %s labels in %s do not belong together'):format(
        images:describe(), labels:describe(), folder), 'ESHAPE')
    end
    out[name] = { images = images, labels = labels }
  end
  return out
end

return late.namespace(M, LATE, 'data')
