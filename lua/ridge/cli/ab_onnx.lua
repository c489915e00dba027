-- SPDX-License-Identifier: MIT
--- `ridge ab a.onnx b.onnx`: two files, or one and a program that runs it, in paired blocks.

local canonical = require 'ridge.store.canonical'
local plain = require 'ridge.plain'
local stored = require 'ridge.cli.stored'
local verdicts = require 'ridge.cli.verdicts'

local M = {}

local JSON = { 'verdict', 'ratio', 'ci_lo', 'ci_hi', 'p', 'floor', 'margin', 'aa', 'aa_fail',
  'a_ns', 'b_ns', 'blocks', 'procs', 'looks', 'needed' }

local function fail(text, ...)
  return stored.fail('ab', select('#', ...) > 0 and text:format(...) or text)
end

local function words_of(text)
  local words = {}
  for word in text:gmatch '%S+' do words[#words + 1] = word end
  return words
end

-- One line of JSON, as the comparison of points prints it.
local function json(found, a, b)
  local row = { a = a, b = b, flags = canonical.list(found.flags) }
  for _, name in ipairs(JSON) do row[name] = found[name] end
  return canonical.encode { version = 1, comparisons = canonical.list { row } } .. '\n'
end

--- Compare and print.
---@param opt table options of `ridge ab`
---@param a string a path
---@param rest string[] the other path
---@return integer status
function M.run(opt, a, rest)
  local b = rest[1]
  if #rest > 1 then return fail("'%s' is one file too many", rest[2]) end
  if (b == nil) == (opt.program == '') then
    return fail('%s: a second ONNX file or --program is wanted, one of them', a)
  end
  if b and not b:find '%.onnx$' then return fail('%s is no ONNX file', b) end
  if #opt.a + #opt.b + #opt.match + #opt.phases > 0 then
    return fail '--a, --b, --match and --phases are of points of a sweep'
  end
  if opt.cold and not b then return fail 'a program cannot be timed --cold' end
  local sizes = require('ridge.onnx.draw').sizes(opt.size)
  local condition, wrong = verdicts.condition(opt.fail_on)
  if not condition then return fail(wrong) end
  local found = require('ridge.cli.onnx_pair').compare({ a = a, b = b, sizes = sizes, seed = 0,
    command = opt.program ~= '' and words_of(opt.program) or nil, passes = opt.passes }, {
    processes = not opt.rigorous and opt.processes or nil, rigorous = opt.rigorous,
    blocks = opt.blocks, looks = opt.looks, margin = opt.margin,
    -- a program draws inputs of its own
    check = opt.check and b ~= nil, tolerance = opt.tolerance > 0 and opt.tolerance or nil,
    protocol = { level = 'quick', cache = opt.cold and 'cold' or 'warm' },
    progress = function(text) plain.note(text, '\n') end })
  if opt.as == 'json' then
    plain.print(json(found, a, b or opt.program))
  else
    local unit = require 'ridge.show.unit'
    plain.print(('%s: %s a call\n%s: %s a call\n%s\n'):format(a, unit.format('ns', found.a_ns),
      b or opt.program, unit.format('ns', found.b_ns), tostring(found)))
    if not b then
      plain.print('what the program computes was not compared: it has inputs of its own\n')
    end
  end
  return verdicts.status({ found }, condition, opt.strict)
end

return M
