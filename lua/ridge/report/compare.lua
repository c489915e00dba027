-- SPDX-License-Identifier: MIT
--- A page about two databases: what of one is faster or slower than the same points of the other.

local compare = require 'ridge.sweep.compare'
local format = require 'ridge.store.format'
local html = require 'ridge.report.html'
local plain = require 'ridge.plain'
local ratio = require 'ridge.show.ratio'
local space = require 'ridge.sweep.space'
local unit = require 'ridge.show.unit'

local M = {}

local ROWS, CSV_MOST = 500, 2.4 * 2 ^ 20
local LABEL, REASON, NAME = 200, 300, 80 -- bytes of a cell
local ORDER = { 'faster', 'slower', 'equal', 'open' }
local RANK = { slower = 1, faster = 2, equal = 3, open = 4 }

local function size(found)
  local r = found.ratio
  return r == r and r > 0 and r < math.huge and math.abs(math.log(r)) or 0
end

-- apart: what anchors say of the machines
local function summary(list, a, b, apart)
  local n, logs, machines, elsewhere, several = {}, {}, nil, 0, false
  for _, found in ipairs(list) do
    n[found.verdict] = (n[found.verdict] or 0) + 1
    if found.verdict ~= 'open' then logs[#logs + 1] = math.log(found.ratio) end
    local both = found.machines
    machines = machines or both
    elsewhere = elsewhere + (both and 1 or 0)
    several = several or both ~= nil and (both.a ~= machines.a or both.b ~= machines.b)
  end
  local counts = {}
  for _, name in ipairs(ORDER) do
    if n[name] then counts[#counts + 1] = ('%d %s'):format(n[name], name) end
  end
  local sentences = { ('Of %s that both have, in %s against %s: %s.'):format(
    plain.count(#list, 'timing'), b, a, table.concat(counts, ', ')) }
  -- one number of several kinds of pairs would be of none
  if #logs > 0 and (elsewhere == 0 or elsewhere == #list and not several) then
    table.sort(logs)
    local middle = (logs[math.ceil(#logs / 2)] + logs[math.floor(#logs / 2) + 1]) / 2
    sentences[#sentences + 1] = ('Where it is decided, the middle ratio of times is %s.'):format(
      ratio.text(math.exp(middle)))
  end
  local others, between = #list - elsewhere, nil
  if machines then
    between = several and 'several machines'
      or ('machines, %s against %s'):format(machines.b, machines.a)
  end
  if not machines then
    sentences[#sentences + 1] = 'Both were measured at different times: open is what their '
      .. 'environments do not let compare.'
  elseif others == 0 then
    sentences[#sentences + 1] = ('These are ratios of %s, with all in which they differ.'):format(
      between)
  else
    sentences[#sentences + 1] = ('%d of them %s of %s, with all in which they differ; the others '
      .. 'are of one machine at different times.'):format(elsewhere, elsewhere == 1
      and 'is a ratio' or 'are ratios', between)
  end
  if apart then sentences[#sentences + 1] = apart:gsub('^%l', string.upper) .. '.' end
  return table.concat(sentences, ' ')
end

--- The page.
---@param a string path of a database
---@param b string path of the other one, which is held against it
---@param opt table|nil sweep: only that one; mixed: also where points of one file are of unlike
---  machines
---@return string html
---@return string[] left what was left out: sentences
function M.page(a, b, opt)
  local list, alone, apart = compare.databases(a, b, { sweep = opt and opt.sweep,
    mixed = opt and opt.mixed })
  local order, at = {}, {}
  for i, found in ipairs(list) do order[i], at[found] = found, i end
  table.sort(order, function(x, y)
    if RANK[x.verdict] ~= RANK[y.verdict] then return RANK[x.verdict] < RANK[y.verdict] end
    if size(x) ~= size(y) then return size(x) > size(y) end
    return at[x] < at[y]
  end)
  local names = { a:match '[^/]+$', b:match '[^/]+$' }
  if names[1] == names[2] then names = { a, b } end -- main/ridge.db and pr/ridge.db
  local command = ('ridge compare %s %s%s'):format(html.shell(names[1]), html.shell(names[2]),
    (opt and opt.sweep and ' --sweep ' .. html.shell(opt.sweep) or '')
      .. (opt and opt.mixed and ' --mixed' or ''))
  local rows, left = {}, {}
  local out = { titles = { 'sweep', 'point', 'phase', 'cache', 'verdict', 'ratio', 'ci_lo', 'ci_hi',
    'a_ns', 'b_ns', 'reason' }, lines = {} }
  for i, found in ipairs(order) do
    local label = space.label(found.match)
    out.lines[i] = { found.sweep, label, found.phase, found.cache, found.verdict, found.ratio,
      found.ci_lo, found.ci_hi, found.a_ns, found.b_ns, found.reason }
    if i <= ROWS then
      rows[i] = { html.cut(found.sweep, NAME), html.cut(label, LABEL), html.cut(found.phase, NAME)
        .. (found.cache == 'cold' and ' cold' or ''),
        found.verdict, found.ratio == found.ratio and ratio.text(found.ratio) or nil,
        found.ci_lo and ratio.range(found.ci_lo, found.ci_hi, ' to ') or nil,
        found.a_ns and unit.format('ns', found.a_ns) or nil,
        found.b_ns and unit.format('ns', found.b_ns) or nil,
        found.reason and html.cut(found.reason, REASON) or nil }
    end
  end
  if #order > ROWS then
    left[1] = ('%d of %d timings in the table below'):format(#order - ROWS, #order)
  end
  local text = format.text(out, 'csv')
  local file
  if #text * 4 / 3 <= CSV_MOST then
    file = ('<p><a download="compare.csv" href="%s">All of them as CSV</a></p>'):format(
      html.data('text/csv', text))
  else
    left[#left + 1] = 'the table of all timings: ' .. command .. ' --as json'
  end
  local body = { ('<h1>%s against %s</h1>'):format(html.escape(names[2]), html.escape(names[1])),
    html.p(summary(order, names[1], names[2], apart), 'answer'),
    html.section('Timings', html.table({ 'sweep', 'point', 'phase', 'verdict', 'b/a', '95 %', 'a',
      'b', 'why' }, rows, { [2] = 't', [5] = 'n', [6] = 'n', [7] = 'n', [8] = 'n', [9] = 't' }),
      file),
    alone > 0 and html.p(('%s in one of them only.'):format(alone == 1 and '1 timing is'
      or alone .. ' timings are')) or '',
    html.section('Again', html.commands { command .. ' --match-all' }),
    #left > 0 and html.section('Left out', html.p(table.concat(left, '; ') .. '.')) or '',
    html.p('Made by ridge ' .. require('ridge').version() .. '.', 'muted') }
  return html.page(('%s against %s · ridge'):format(names[2], names[1]), body), left
end

return M
