-- SPDX-License-Identifier: MIT
--- `ridge peek`: what files of tensors hold, by their headers.

local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'names, types and shapes in a file of tensors: ridge peek net.safetensors'
M.usage = 'ridge peek FILE ...'

local SPEC = { about = [[
Only headers are read, however large the file is: safetensors and indexes of several
(model.safetensors.index.json), NumPy's npy and npz, IDX. Types that ridge does not have are shown
as the file calls them; ridge.load leaves such tensors out.

    ridge peek net.safetensors]],
  rest = 'FILE ...' }

--- Print what is in files.
---@param argv string[]
---@return integer status
function M.main(argv)
  return stored.run('peek', SPEC, argv, nil, function(_, rest)
    if #rest == 0 then return stored.fail('peek', 'a file is missing') end
    for i, path in ipairs(rest) do
      plain.print(i > 1 and '\n' or '', require('ridge.data.peek').peek(path):text(), '\n')
    end
  end)
end

return M
