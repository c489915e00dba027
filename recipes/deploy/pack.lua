-- SPDX-License-Identifier: MIT
--- An ONNX file as a folder that run.c runs without Lua: the graph behind its passes as graph.json,
--- and its parameters and constants in their order in it, a .npy file each.
--
-- machine: any
-- time:    seconds
-- result:  FOLDER/graph.json, FOLDER/1.npy ...
--
--     ./ridge recipes/deploy/pack.lua --file net.onnx --folder net [--size N=1] [--passes standard]

local C = require 'ridge.ffi.lib'
local draw = require 'ridge.onnx.draw'
local ref = require 'ridge.ffi.ref'
local ridge = require 'ridge'

local opt = ridge.args {
  { 'file', '', 'the ONNX file' },
  { 'folder', '', 'a folder that is there' },
  { 'size', {}, 'sizes that the file leaves open, N=8', each = true },
  { 'passes', 'aggressive', 'passes over the graph',
    choices = { 'none', 'standard', 'aggressive' } },
}
if opt.file == '' or opt.folder == '' then
  io.stderr:write('pack: which file, and where to? --file net.onnx --folder net\n')
  os.exit(1)
end

local model = ridge.onnx.load(opt.file)
local graph = ridge.graph(model, unpack(draw.inputs(model, draw.sizes(opt.size), 0)))
if opt.passes ~= 'none' then graph = graph:optimize(opt.passes) end
graph:save(opt.folder .. '/graph.json')
local n = 0
for _, value in ipairs(graph:values()) do -- in the file they are numbered anew, in the same order
  if value.kind ~= 'intermediate' and value.kind ~= 'input' then
    local x = C.rg_graph_bound(graph._p, value.id)
    n = n + 1
    C.rg_tensor_retain(x)
    ridge.save(('%s/%d.npy'):format(opt.folder, n), ref.wrap(x):detach())
  end
end
print(('%s: %d nodes, %d parameters and constants in %s'):format(opt.file, #graph:nodes(), n,
  opt.folder))
