-- SPDX-License-Identifier: MIT
--- `ridge profile RECIPE`: where the time of a recipe goes.

local args = require 'ridge.cli.args'
local host = require 'ridge.host'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'where the time of a recipe goes: ridge profile train.lua --flame x.svg'
M.usage = 'ridge profile RECIPE [--sort NAME] [--rows N] [--trace FILE] [--flame FILE] [-- args]'

local SPEC = {
  about = [[
Runs a recipe and tells where its time went: operations, layers, sections (data_loading, forward,
loss_computation, backward, optimizer_step), what takes most, why, and what to try. What stands
behind -- are the recipe's own options. Where time goes between operations, by lines of Lua, is in
the text, the flame graph and the stacks; --by lua puts it first. The last events are kept when
there are too many of them.

    ridge profile train_mlp --rows 10 -- --epochs 1
    ridge profile train.lua --trace x.json --flame x.svg

Traces open in Perfetto or chrome://tracing, folded stacks in flamegraph.pl. A recipe that raises,
or Ctrl-C, keeps what was measured until then.

Exit status: the recipe's; 1 when a file could not be written.]],
  rest = 'RECIPE [-- options of the recipe]', most = 1,
  { 'sort', 'time', 'order of the rows, the largest first',
    choices = { 'time', 'total', 'calls', 'flops', 'bytes', 'rate', 'traffic', 'name' } },
  { 'rows', 20, 'rows of each table', integer = true, min = 1 },
  { 'by', 'operation', 'the first table', choices = { 'operation', 'call', 'lua', 'kernel' } },
  { 'threshold', 0.2, 'share of the time from which something is a bottleneck', min = 0, max = 1 },
  { 'top', 3, 'bottlenecks that are told', integer = true, min = 1 },
  { 'roof', 'stored', 'ceilings of this machine: stored ones, or measured now',
    choices = { 'stored', 'measured', 'none' } },
  { 'bytes', 48 * 2 ^ 20, 'room for events', integer = true, min = 2 ^ 10, max = 2 ^ 26 },
  { 'counters', false, 'count cycles, instructions, misses, where the machine lets that be done' },
  { 'classes', false, 'the same for each class of operation, which costs time' },
  { 'kernels', false, 'each kernel of a GPU with its own times, by CUPTI; --counters does so too' },
  { 'memory', false, 'note each block of memory that is taken, given back' },
  { 'trace', '', 'JSON file for Perfetto or chrome://tracing', writes = 'file' },
  { 'flame', '', 'SVG file with a flame graph', writes = 'file' },
  { 'folded', '', 'file with folded stacks', writes = 'file' },
  { 'speedscope', '', 'JSON file for speedscope.app', writes = 'file' },
  { 'plot', '', 'PNG file with what ran when', writes = 'file' },
  { 'roofline', '', 'PNG file with its calls under the measured roofs', writes = 'file' },
}

local OUTPUTS = { 'trace', 'flame', 'folded', 'speedscope', 'plot', 'roofline' }

local function fail(reason) return stored.fail('profile', reason) end

-- The recipe, profiled, and its status. A second Ctrl-C ends the recipe, not what is told of it.
local function run(found, own, opt)
  return require('ridge.cli.recipe').within(found, own, function(f)
    local function recipe()
      f()
      host.stopped()
    end
    return require('ridge.profile').profile(recipe, { sort = opt.sort, rows = opt.rows,
      threshold = opt.threshold, top = opt.top, roof = opt.roof, bytes = opt.bytes,
      memory = opt.memory, lines = true, counters = opt.counters,
      operation_counters = opt.classes, kernels = opt.kernels or nil })
  end)
end

local function write_all(p, opt)
  local good = true
  for _, name in ipairs(OUTPUTS) do
    if opt[name] ~= '' then
      local ok, err = pcall(p[name], p, opt[name])
      if ok then
        plain.note(opt[name], '\n')
      else -- the others may be written yet
        good = false
        plain.note('ridge profile: ', type(err) == 'table' and err.message or tostring(err), '\n')
      end
    end
  end
  return good
end

--- Run it, print and write what was found.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  local opt, rest = args.read(SPEC, ours)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'profile'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  elseif #rest == 0 then
    return fail 'the name of a recipe is missing'
  end
  for _, name in ipairs { 'plot', 'roofline' } do
    if opt[name] ~= '' and not opt[name]:lower():find '%.png$' then
      return fail(('--%s: figures are PNG files, so the path must end in .png'):format(name))
    end
  end
  local recipe = require 'ridge.cli.recipe'
  local found, reason = recipe.find(rest[1])
  if not found then return fail(reason) end
  local p, status = run(found, own, opt)
  if opt.by ~= 'operation' then plain.print(p:table { by = opt.by }, '\n') end
  plain.print(p:text(), '\n')
  if not write_all(p, opt) and status == 0 then status = 1 end
  return status
end

return M
