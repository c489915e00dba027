-- SPDX-License-Identifier: MIT
--- `ridge autotune RECIPE`: measure which path is the fastest for each product and convolution of a
--- recipe, and keep it for this machine; `ridge autotune --probe`: what products take in general.

local args = require 'ridge.cli.args'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = "measure how a recipe's products and convolutions are fastest: ridge autotune mlp.lua"
M.usage = "ridge autotune [RECIPE] [--probe] [-P name=values] [--again] [options] [-- recipe's own]"

local SPEC = {
  about = [[
Runs a recipe and measures, for each product and each convolution that it computes on the CPU and
that nobody has measured on this machine, which path is the fastest. Products: ridge's own kernels,
oneDNN or OpenBLAS. Convolutions and their gradients: oneDNN in its own layout (blocked) or on
images as stored (plain), ridge's tiles for few channels, a product where the kernel is 1 x 1, or
one that gathers its rows (implicit; AVX2, channels last).
What is found is kept in the database, and sweeps that use it take these paths (ridge choices lists
them). Of a sweep each point is set up and called once: nothing of it is timed or stored as a point,
and the recipe ends where it asks for results. Another recipe runs as it is.

With --probe, with or without a recipe, some dozens of products of each kind are measured first (a
few seconds), with one thread and with all, and what others take is expected from them: products
that nobody measured then take the path that is expected to be the fastest on this machine.
Convolutions that nobody measured take the way that is expected to be the fastest, by what was
fitted to other processors.

Where the path of products is forced (RIDGE_GEMM) convolutions alone are measured, and those of
1 x 1 as products by that path.

    ridge autotune --probe
    ridge autotune mlp.lua
    ridge autotune mlp.lua -P batch=1..4*2 -P width=128 -- --quick

What stands after -- are the recipe's own options. Exit status: 0; 2 when points failed; 130 after
Ctrl-C, with what was found saved.]],
  rest = 'RECIPE [-- options of the recipe]', most = 1,
  { 'param', {}, 'values of a parameter', short = 'P', each = true },
  { 'where', '', "keep combinations for which this holds: 'batch*width <= 2^20'" },
  { 'again', false, 'measure also what is known' },
  { 'probe', false, 'measure what products of all sizes take' },
  { 'progress', '', 'what is shown meanwhile; what suits the terminal when left out',
    choices = { '', 'bar', 'plain', 'off' } },
  stored.DB,
}

local function set(text) return text ~= '' and text or nil end

-- What is in the way of all choices, or of those that products have.
local function why_none(of_products)
  local choices = require 'ridge.choices'
  if not choices.decides() then return '`deterministic` is on' end
  if not of_products or choices.decides_products() then return nil end
  return ('the path %s is forced (RIDGE_GEMM)'):format(require('ridge.backend').now().gemm)
end

-- A table of what was found: what is taken, in place of what, and what that gains.
local function print_found(found, known, path)
  local choices, unit = require 'ridge.choices', require 'ridge.show.unit'
  local lines, changed, head = {}, 0, 'm x k x n'
  for i, r in ipairs(found) do
    if r.images then head = 'sizes' end
    local other = r.path ~= r.standard
    changed = changed + (other and 1 or 0)
    local t = r.paths[r.path]
    lines[i] = { choices.sizes(r), r.compute, r.threads, r.path,
      other and r.standard or '', choices.gain(r), t and unit.format('ns', t.ns) or '' }
  end
  if #found > 0 then
    plain.print(require('ridge.show.columns').text({ head, 'type', 'threads', 'taken',
      'before', 'gain', 'time' }, lines, { right = { [7] = true } }), '\n')
  end
  plain.print(('%s measured, %d by another path than the standard one%s%s\n'):format(
    choices.counted(found), changed,
    known > 0 and (', %d known before'):format(known) or '', path and '; kept in ' .. path or ''))
end

-- What happens in place of running a sweep, and what was seen of it.
local function hooks(opt, since, stop)
  local tune, override = require 'ridge.sweep.tune', require 'ridge.sweep.override'
  local seen = { failed = 0, known = 0, done = {} }
  local function points(sw, given)
    given = given or {}
    local path = set(opt.db) or given.db or require('ridge.store').default_path()
    if seen.done[sw] then return end
    seen.done[sw], seen.path = true, path
    if not tune.has_products(sw) then
      plain.note(('ridge autotune: the points of %s run on %s: its libraries choose there\n')
        :format(sw.name, sw.spec.device))
      return
    end
    local ok, failed, known = pcall(tune.points, sw, { db = path, again = opt.again, since = since,
      lab = given.lab or require('ridge.sweep.device').lab(sw.spec.device),
      progress = set(opt.progress) })
    if not ok then
      if not require('ridge.sweep.block').is_interrupt(failed) then seen.reason = failed end
      error(seen.reason and stop or failed, 0)
    end
    seen.failed, seen.known = seen.failed + failed, seen.known + known
  end
  function override.instead(sw, given)
    points(sw, given)
    return { name = sw.name, path = seen.path, counts = { total = sw.plan.n_points }, failed = 0 }
  end
  function override.instead_ab(sw, given)
    points(sw, given)
    error(stop, 0)
  end
  function override.reads() error(stop, 0) end
  return seen
end

local function run_recipe(found, own, opt, since)
  local stop = {}
  local seen = hooks(opt, since, stop)
  local choices, exit = require 'ridge.choices', os.exit
  -- the end of the recipe is not ours
  os.exit = function(status) -- luacheck: ignore 122
    seen.exited = status == true and 0 or status == false and 1 or tonumber(status) or 0
    error(stop, 0)
  end
  choices.tune(true)
  local ok, status = pcall(require('ridge.cli.recipe').run, found, own, { stop = stop,
    after = function(result)
      if require('ridge.sweep').is(result) and not seen.done[result] then result:run() end
    end })
  choices.tune(false)
  os.exit = exit -- luacheck: ignore 122
  if not ok then error(status, 0) end
  return status, seen
end

local function probe()
  plain.print(tostring(require('ridge.backend').probe { progress = function(line)
    plain.note(('probing: %s\n'):format(line))
  end }), '\n')
end

local function first_look(opt)
  local path, kept = set(opt.db), require 'ridge.sweep.choices'
  local st = require('ridge.store').open(path, 'write') -- what cannot be written is said now
  local ok, taken = pcall(function()
    return { path = st.path, known = opt.again and 0 or kept.take(st).put }
  end)
  st:close()
  if not ok then error(taken, 0) end
  return taken
end

local function keep(path, since)
  local st = require('ridge.store').open(path, 'write')
  local ok, err = pcall(require('ridge.sweep.choices').keep, st, since)
  st:close()
  if not ok then error(err, 0) end
end

--- Measure the paths of the recipe that is named.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  local opt, rest = args.read(SPEC, ours)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'autotune'), '\n')
    return 0
  end
  local function fail(reason) return stored.fail('autotune', reason) end
  if not opt then return fail(rest) end
  if not rest[1] and not opt.probe then return fail 'a recipe is missing, or --probe' end
  local recipe, reason
  if rest[1] then
    recipe, reason = require('ridge.cli.recipe').find(rest[1])
    if not recipe then return fail(reason) end
  end
  reason = why_none(opt.probe)
  if reason then return fail(reason .. ': there is nothing to choose') end
  reason = why_none(true)
  if reason then
    plain.note(('ridge autotune: %s: convolutions alone are measured\n'):format(reason))
  end
  local override = require 'ridge.sweep.override'
  local values = require('ridge.sweep.written').parameters(opt.param)
  override.given = { space = next(values) and values or nil, where = set(opt.where) }
  local since = require('ridge.store.clock').now_us()
  local look = first_look(opt)
  if opt.probe then
    probe()
    if not recipe then
      local saved, why = pcall(keep, look.path, since)
      if not saved then return fail(type(why) == 'table' and why.message or tostring(why)) end
      plain.print(('kept in %s\n'):format(look.path))
      return 0
    end
  end
  local status, seen = run_recipe(recipe, own, opt, since)
  local found = require('ridge.choices').all(nil, since)
  if seen.exited and #found == 0 and not next(seen.done) then return seen.exited end
  -- what is computed outside of sweeps; and once more what a full disk did not take
  local path = seen.path or look.path
  local saved, why = pcall(keep, path, since)
  print_found(found, look.known + seen.known, saved and path)
  if seen.reason or not saved then
    local err = seen.reason or why
    return fail(type(err) == 'table' and err.message or tostring(err))
  end
  return status ~= 0 and status or seen.failed > 0 and 2 or 0
end

return M
