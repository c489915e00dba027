-- SPDX-License-Identifier: MIT
--- `ridge smaller RECIPE`: bits, pruning and widths as one sweep over the net a recipe returns; the
--- smallest or fastest that costs no more accuracy than is allowed.

local args = require 'ridge.cli.args'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'

local M = {}

M.summary = 'a smaller net that costs little: ridge smaller digits --max-drop 0.5%'
M.usage = 'ridge smaller RECIPE [--max-drop 0.5%] [--only quant,prune] [--budget 30m] [options] '
  .. '[-- args]'

local SPEC = {
  about = [[
Runs a recipe, which returns its net and its data, tries bits, patterns and sparsities of pruning
and widths, each alone and then together, and measures each net beside the original: bytes that it
holds, time in paired blocks, answers on validation data. Prints all of them, which was chosen, what
it gives on test data, with controls where it was pruned, and a verdict for what is claimed of
smaller nets.

    ridge smaller digits --max-drop 0.5%
    ridge smaller digits --only quant,prune --goal time -o net.safetensors --figure pareto.png

The recipe returns { net =, validate =, test =, calibrate =, train =, epochs =, trained = }, loaders
and function(net, epochs), as ridge.smaller takes them (?ridge.smaller); recipes/digits.lua is one.
What stands behind -- are the recipe's own options. Points are kept in the database, as those of a
sweep: ridge top, query, export and plot read them.

What was measured, and the best net so far, lie in a folder beside the database (FILE.searches)
until the search has come to its end: after Ctrl-C, a kill or the end of --budget the same command
goes on from there.

Exit status: 0; 2 when nothing is within --max-drop; 130 after Ctrl-C, with the best so far.]],
  rest = 'RECIPE [-- options of the recipe]', most = 1,
  { 'max_drop', '0.5%', 'of accuracy on validation data: 0.5%, or the share 0.005' },
  { 'only', {}, 'some of them; all when left out', choices = { 'quant', 'prune', 'shrink' } },
  { 'goal', 'bytes', 'what is to be least', choices = { 'bytes', 'time' } },
  { 'budget', '30m', 'of the search: 90s, 15m, 2h' },
  { 'bits', {}, 'kinds: bf16, f16, dynamic, static, w8, w6, w4, w3, w2' },
  { 'patterns', {}, 'of pruning: element, block, row, 2:4' },
  { 'sparsities', {}, 'shares that are pruned: 0.5,0.9' },
  { 'widths', {}, 'shares of units that stay: 0.75,0.5' },
  { 'control', true, 'no random pruning, no small shape from the start' },
  { 'seed', 1, 'of what is drawn', integer = true, min = 0, max = 2 ^ 53 },
  { 'out', '', 'file for the net that was chosen', short = 'o', writes = 'file' },
  { 'figure', '', 'PNG file: megabytes against accuracy lost', writes = 'file' },
  { 'name', '', 'of the sweep; smaller-RECIPE when left out' },
  { 'keep', true, 'store nothing, and begin anew' },
  stored.DB,
}

local function fail(reason) return stored.fail('smaller', reason) end

local MOST_SHARE = 0.1 -- that is taken for one without a sign: who types 0.5 means percent

-- '0.5%' or '0.005' as a share; nil and why not.
local function share(text)
  local percent = text:match '^%s*([%d.]+)%s*%%%s*$'
  local value -- 0.7 / 100 is less than 7 of 1000 rows are, and 0.7e-2 is that
  if percent then value = tonumber(percent .. 'e-2') else value = tonumber(text) end
  if value and value > MOST_SHARE and value <= 100 and not percent then
    return nil, ('--max-drop: %s has no sign of percent: write %s%%%s'):format(text, text,
      value <= 1 and (' or %.12g%%'):format(100 * value) or '')
  end
  if value and value >= 0 and value <= 1 then return value end
  return nil, ("--max-drop: '%s' is not like 0.5%% or 0.005"):format(text)
end

local function numbers(list, flag)
  local out = {}
  for i, word in ipairs(list) do
    out[i] = tonumber(word)
    if not out[i] then return nil, ("--%s: '%s' is no number"):format(flag, word) end
  end
  return out
end

-- What was said on the command line, which stands above what the recipe returns.
local function said_options(opt, said)
  local given = {}
  if said.max_drop then
    local value, why = share(opt.max_drop)
    if not value then return nil, why end
    given.max_drop = value
  end
  for _, name in ipairs { 'only', 'bits', 'patterns', 'sparsities', 'widths' } do
    if said[name] and #opt[name] == 0 then return nil, ('--%s: nothing is named'):format(name) end
  end
  for _, name in ipairs { 'only', 'bits', 'patterns' } do
    if said[name] then given[name] = opt[name] end
  end
  for _, name in ipairs { 'sparsities', 'widths' } do
    if said[name] then
      local list, why = numbers(opt[name], name)
      if not list then return nil, why end
      given[name] = list
    end
  end
  for _, name in ipairs { 'goal', 'budget', 'control', 'seed' } do
    if said[name] then given[name] = opt[name] end
  end
  if given.budget then
    local ok, err = pcall(require('ridge.sweep.part').seconds, given.budget)
    if not ok then return nil, '--' .. err.message end
  end
  return given
end

local function options_of(returned, given, folder)
  local opts = {}
  for name, value in pairs(returned) do
    if name ~= 'net' then opts[name] = value end
  end
  for name, value in pairs(given) do opts[name] = value end
  opts.folder = folder
  opts.progress = opts.progress or function(text) plain.note(text, '\n') end
  return opts
end

local function name_of(opt, recipe)
  if opt.name ~= '' then return opt.name end
  return 'smaller-' .. recipe.name:match '([^/]*)$':gsub('%.lua$', '')
end

-- Where a search that was ended lies: beside the database, by its name and by what the recipe does.
local function folder_of(opt, recipe, own)
  if not opt.keep then return nil end
  local canonical = require 'ridge.store.canonical'
  local sha256 = require 'ridge.store.sha256'
  local text = canonical.encode { require('ridge.cli.recipe').text(recipe), canonical.list(own) }
  return ('%s.searches/%s-%s'):format(opt.db ~= '' and opt.db
    or require('ridge.store').default_path(), name_of(opt, recipe):gsub('[^%w._-]', '_'),
    sha256.hex(sha256.digest(text)):sub(1, 8))
end

-- Everything that was asked to be written; false where something could not be.
local function write(q, found, opt, recipe)
  local good, name = true, name_of(opt, recipe)
  local function try(path, f)
    local ok, err = pcall(f)
    if ok then return plain.note(path, '\n') end
    good = false
    plain.note('ridge smaller: ', type(err) == 'table' and err.message or tostring(err), '\n')
  end
  if opt.out ~= '' and found.chosen then try(opt.out, function() q:save(opt.out) end) end
  if opt.figure ~= '' then
    try(opt.figure, function() found:plot({ sweep = name }):save(opt.figure) end)
  end
  if opt.keep then
    local ok, kept = pcall(found.keep, found, { name = name, db = opt.db ~= '' and opt.db or nil,
      recipe = require('ridge.cli.recipe').text(recipe) })
    if ok then
      plain.note(('kept as %s in %s\n'):format(kept.name, kept.path))
    else
      good = false
      plain.note('ridge smaller: ', type(kept) == 'table' and kept.message or tostring(kept), '\n')
    end
  end
  return good
end

--- Run it, search, print and write what was found.
---@param argv string[]
---@return integer status
function M.main(argv)
  local ours, own = args.split(argv)
  local opt, rest, said = args.read(SPEC, ours)
  if not opt and rest == 'help' then
    plain.print(args.help(SPEC, 'smaller'), '\n')
    return 0
  elseif not opt then
    return fail(rest)
  elseif #rest == 0 then
    return fail 'the name of a recipe is missing'
  elseif opt.figure ~= '' and not opt.figure:lower():find '%.png$' then
    return fail '--figure: figures are PNG files, so the path must end in .png'
  end
  local given, why = said_options(opt, said)
  if not given then return fail(why) end
  local recipe = require 'ridge.cli.recipe'
  local found, reason = recipe.find(rest[1])
  if not found then return fail(reason) end
  local q, result
  -- inside of the recipe's call, where the first Ctrl-C asks for an end in good order
  local status = recipe.run(found, own, { stop = {}, after = function(returned)
    if type(returned) ~= 'table' or returned.net == nil then
      reason = ('the recipe %s returns no table with net and validate'):format(rest[1])
      return
    end
    q, result = require('ridge.smaller').smaller(returned.net, options_of(returned, given,
      folder_of(opt, found, own)))
  end })
  if reason then return fail(reason) end
  if not result then return status end
  plain.print(tostring(result), '\n')
  if not write(q, result, opt, found) then return 1 end
  if result.ended == 'interrupted' then return 130 end
  return result.chosen and 0 or 2
end

return M
