"""The fit of a method: the problem, the plan of its memory, folds, engines, held-out scores and the choice by them."""
