-- SPDX-License-Identifier: MIT
--- `ridge advise RECIPE`: the checklists of the documents, evaluated on a recipe's run.

local args = require 'ridge.cli.args'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'what to try on a recipe, by what was measured: ridge advise train.lua -- --epochs 1'
M.usage = 'ridge advise RECIPE [--lines] [--seconds S] [--roof stored|measured|none] [-- args]'

local SPEC = {
  about = [[
Runs a recipe, profiles it, and then tries variants of a step of the net that it trained: products
in bf16, a plan, larger batches, recomputation, 8-bit factors ... Each line of the documents'
checklists and tables of troubles is told with what was measured: it applies, it does not, or it
could not be told and why; what applies with what to try, and what measures that.

    ridge advise train_mlp -- --epochs 1
    ridge advise train.lua --lines                # each line of the documents in a row

What stands behind -- are the recipe's own options; one epoch is enough.

Exit status: the recipe's.]],
  rest = 'RECIPE [-- options of the recipe]', most = 1,
  { 'seconds', 20, 'that trials may take, about', min = 0.1, max = 86400 },
  { 'lines', false, 'each line of the documents, and what it came to' },
  { 'roof', 'stored', 'ceilings of this machine: stored ones, or measured now',
    choices = { 'stored', 'measured', 'none' } },
}

local function fail(reason) return stored.fail('advise', reason) end

--- Run it, and tell.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  local opt, rest = args.read(SPEC, ours)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'advise'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  elseif #rest == 0 then
    return fail 'the name of a recipe is missing'
  end
  local recipe = require 'ridge.cli.recipe'
  local found, reason = recipe.find(rest[1])
  if not found then return fail(reason) end
  local a, status = recipe.within(found, own, function(f)
    return require('ridge.advise').advise(f, { seconds = opt.seconds, roof = opt.roof })
  end)
  plain.print(tostring(opt.lines and a.lines or a), '\n')
  return status
end

return M
