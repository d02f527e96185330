/* The move of a queue from node A to node B, as actors/move does it: never two owners that can write, never none for ever.
 *
 * Modelled: every step of the protocol, a crash of either node between any two steps (its memory is gone, its disk is not),
 * messages that are lost, late or doubled, a decision whose write ends in "unknown", and a target that asks.
 * Left out: the rows (that they are all there is the simulation's work, tests/simulation/move_simulation.test.cpp) and time:
 * a timeout may come at any moment.
 *
 * FAULT plants an error that the model must find:
 *   1 the target takes the queue for itself when it has waited for long enough
 *   2 an unknown decision is taken for one that was not written, without reading back
 *   3 the target does not write its promise down before it answers
 *   4 the source answers "aborted" while it is still deciding
 */
#ifndef FAULT
#define FAULT 0
#endif
#ifndef CRASHES
#define CRASHES 2     /* of both nodes together */
#endif
#ifndef TRIES
#define TRIES 2       /* moves that A begins */
#endif

mtype = { prepare, image, commit, abort,        /* A to B */
          ok_prepare, ok_image, ok_commit, no,  /* B to A */
          ask, committed, aborted, pending };   /* B to A and back */

chan to_b = [3] of { mtype, byte };
chan to_a = [3] of { mtype, byte };

/* On disk. */
bool a_is_home = true;  /* A's record: the truth */
byte a_gave = 0;        /* the move by which A gave the queue away */
bool b_is_home = false;
byte b_promised = 0;    /* the move that B has promised to take */

/* What each can do now. */
bool a_serves = true;   /* it may write: frozen counts as well, since it may thaw */
bool b_serves = false;
bool a_up = true;
bool b_up = true;
byte crashes = CRASHES;
bool calm = false;      /* nothing more goes wrong */

/* A message may be lost, or wait in the channel, or come twice. */
inline tell_b(what, move) {
  if
  :: !calm -> skip                                             /* lost */
  :: nfull(to_b) -> to_b ! what, move
  :: !calm && len(to_b) < 2 -> to_b ! what, move; to_b ! what, move
  :: full(to_b) -> skip
  fi
}
inline tell_a(what, move) {
  if
  :: !calm -> skip
  :: nfull(to_a) -> to_a ! what, move
  :: !calm && len(to_a) < 2 -> to_a ! what, move; to_a ! what, move
  :: full(to_a) -> skip
  fi
}

active proctype A() {
  byte move = 0;         /* the one that runs; 0: none */
  byte next = 1;
  bool deciding = false;
  bool unknown = false;
  mtype what; byte m;
end_a:
  do
  /* It begins a move, or sends again what was not answered. */
  :: atomic { a_up && a_serves && move == 0 && next <= TRIES -> move = next; next++; tell_b(prepare, move) }
  :: atomic { a_up && move != 0 && !deciding && a_is_home && !calm -> tell_b(image, move) }
  :: atomic { a_up && move != 0 && !a_is_home && !deciding && empty(to_a) && nfull(to_b) -> tell_b(commit, move) }
  /* It gives up: only before it decides. */
  :: atomic { a_up && move != 0 && a_is_home && !deciding -> tell_b(abort, move); move = 0 }
  /* The decision: one write, which may end in "unknown". */
  :: atomic { a_up && deciding && !unknown -> a_is_home = false; a_gave = move; deciding = false; a_serves = false; tell_b(commit, move) }
  :: atomic { a_up && deciding && !unknown && !calm -> deciding = false; tell_b(abort, move); move = 0 }  /* surely not written */
  :: atomic { a_up && deciding && !unknown && !calm -> unknown = true; if :: a_is_home = false; a_gave = move :: skip fi }
  /* Read back. */
#if FAULT == 2
  :: atomic { a_up && deciding && unknown -> unknown = false; deciding = false; move = 0 }
#else
  :: atomic { a_up && deciding && unknown && a_gave == move -> unknown = false; deciding = false; a_serves = false; tell_b(commit, move) }
  :: atomic { a_up && deciding && unknown && a_gave != move -> unknown = false; deciding = false; tell_b(abort, move); move = 0 }
#endif
  /* Answers. */
  :: atomic { a_up && to_a ? [what, m] -> to_a ? what, m;
       if
       :: what == ask ->
            if
#if FAULT == 4
#else
            :: m == move && (a_serves || deciding) -> tell_b(pending, m)
#endif
            :: (FAULT == 4 || !(m == move && (a_serves || deciding))) && a_gave == m && !deciding -> tell_b(committed, m)
            :: (FAULT == 4 || !(m == move && (a_serves || deciding))) && (a_gave != m || deciding) -> tell_b(aborted, m)
            fi
       :: what == ok_prepare && m == move && a_is_home && !deciding -> tell_b(image, move)
       :: what == ok_image && m == move && a_is_home && !deciding -> deciding = true
       :: what == ok_commit && m == move && !a_is_home && !deciding -> move = 0
       :: what == no && m == move && a_is_home && !deciding -> tell_b(abort, move); move = 0
       :: else -> skip
       fi; what = 0; m = 0 }
  /* A crash, and a start: what is on the disk counts. */
  :: atomic { a_up && crashes > 0 && !calm -> crashes--; a_up = false; a_serves = false; move = 0; deciding = false; unknown = false }
  :: atomic { !a_up -> a_up = true; a_serves = a_is_home }
  od
}

active proctype B() {
  byte move = 0;       /* what it takes, or has taken; 0: none */
  byte last = 0;       /* the highest that it took up */
  bool promised = false;
  mtype what; byte m;
end_b:
  do
  :: atomic { b_up && to_b ? [what, m] -> to_b ? what, m;
       if
       :: what == prepare && !b_serves && m > last -> last = m; move = m; promised = false; b_promised = 0; tell_a(ok_prepare, m)
       :: what == prepare && !b_serves && m == move -> tell_a(ok_prepare, m)
       :: what == image && m == move && !b_serves ->
            promised = true;
#if FAULT != 3
            b_promised = m;
#endif
            tell_a(ok_image, m)
       :: what == image && m != move && !b_serves -> tell_a(no, m)
       :: (what == commit || what == committed) && m == move && promised && !b_serves ->
            b_is_home = true; b_promised = 0; b_serves = true; tell_a(ok_commit, m)
       :: what == commit && m == move && b_serves -> tell_a(ok_commit, m)
       :: (what == abort || what == aborted) && m == move && !b_serves -> move = 0; promised = false; b_promised = 0
       :: else -> skip
       fi; what = 0; m = 0 }
  /* It asks when it does not hear. */
  :: atomic { b_up && promised && !b_serves && empty(to_b) && nfull(to_a) -> tell_a(ask, move) }
#if FAULT == 1
  :: atomic { b_up && promised && !b_serves -> b_is_home = true; b_promised = 0; b_serves = true }
#endif
  :: atomic { b_up && crashes > 0 && !calm -> crashes--; b_up = false; b_serves = false; move = 0; promised = false }
  :: atomic { !b_up -> b_up = true; b_serves = b_is_home; move = b_promised; promised = (b_promised != 0);
       if :: b_promised > last -> last = b_promised :: else -> skip fi }
  od
}

/* At some time nothing goes wrong any more. */
active proctype peace() { calm = true }

#define two_owners (a_serves && b_serves)
#define two_after_restart ((a_is_home || a_serves) && (b_is_home || b_serves))
#define one_owner ((a_serves && !b_serves) || (!a_serves && b_serves))

ltl never_two { [] (!two_owners && !two_after_restart) }
ltl one_in_the_end { <> [] one_owner }
